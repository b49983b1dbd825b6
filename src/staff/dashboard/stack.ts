import type { TrafficCounts } from '../../reports/breakdown.js'
import type { ClientCounts } from '../../reports/client-counts.js'

/** The outcomes of requests: classes of the style sheet, from the bottom of a bar to its top. */
const OUTCOMES = ['refused', 'would-be-refused', 'denied', 'allowed'] as const

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
 * Stacks traffic into a bar: refused, would be refused, denied, and allowed.
 *
 * @param most the traffic that would fill the bar
 * @returns the segments above 0; each is visible, and their sum is 100 at most
 */
export function stack({ total, blocked, would_block, denied }: TrafficCounts, most: number): StackSegment[] {
  const allowed = total - blocked - would_block
  return stackOutcomes({ refused: blocked, 'would-be-refused': would_block, denied, allowed }, most)
}

/** Stacks requests by their outcomes, as `stack` does. */
export function stackOutcomes(counts: Readonly<Record<Outcome, number>>, most: number): StackSegment[] {
  const lengths = OUTCOMES.map((outcome) =>
    counts[outcome] > 0 ? Math.max(LEAST_LENGTH, (100 * counts[outcome]) / most) : 0,
  )
  // The longest segment loses what the shortest segments gained.
  const tooMuch = Math.max(0, lengths.reduce((sum, length) => sum + length, 0) - 100)
  const longest = Math.max(...lengths)
  const segments: StackSegment[] = []
  let start = 0
  for (const [index, outcome] of OUTCOMES.entries()) {
    const wished = lengths[index] ?? 0
    const length = wished === longest ? wished - tooMuch : wished
    if (wished > 0) segments.push({ outcome, start: rounded(start), length: rounded(length) })
    start += length
  }
  return segments
}

/** Returns the counts of a client as the style sheet names the outcomes. */
export function toOutcomes({ requests, over_limit, would_be, denied }: ClientCounts): Record<Outcome, number> {
  const allowed = requests - over_limit - would_be - denied
  return { refused: over_limit, 'would-be-refused': would_be, denied, allowed }
}

/** Rounds to two decimals: exact enough for any screen, and short in the page. */
export function rounded(percent: number): number {
  return Math.round(percent * 100) / 100
}
