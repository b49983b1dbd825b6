import type { TrafficCounts } from '../analytics/breakdown.js'

/** The outcomes of requests, as the style sheet names them, from the bottom of a bar to its top. */
export const OUTCOMES = ['blocked', 'would-block', 'allowed'] as const

export type Outcome = (typeof OUTCOMES)[number]

/** A part of a bar, in percent of the longest possible bar. */
export interface StackSegment {
  readonly outcome: Outcome
  readonly start: number
  readonly length: number
}

/** The length of the shortest visible part. */
const LEAST_LENGTH = 1

/**
 * Stacks traffic into a bar: blocked, would have been blocked, and allowed.
 *
 * @param most the traffic that would fill the bar
 * @returns the segments above 0; each is visible, and their sum is 100 at most
 */
export function stack({ total, blocked, would_block }: TrafficCounts, most: number): StackSegment[] {
  const counts: Record<Outcome, number> = {
    blocked,
    'would-block': would_block,
    allowed: total - blocked - would_block,
  }
  const lengths = OUTCOMES.map((outcome) =>
    counts[outcome] > 0 ? Math.max(LEAST_LENGTH, (100 * counts[outcome]) / most) : 0,
  )
  // The longest segment loses what the shortest segments gained.
  const tooMuch = Math.max(0, lengths.reduce((sum, length) => sum + length, 0) - 100)
  const longest = Math.max(...lengths)
  const segments: StackSegment[] = []
  let start = 0
  for (const [place, outcome] of OUTCOMES.entries()) {
    const wished = lengths[place] ?? 0
    const length = wished === longest ? wished - tooMuch : wished
    if (wished > 0) segments.push({ outcome, start: rounded(start), length: rounded(length) })
    start += length
  }
  return segments
}

/** Rounds to two decimals: exact enough for any screen, and short in the page. */
export function rounded(percent: number): number {
  return Math.round(percent * 100) / 100
}
