import { DAY_MS, HOUR_MS } from '../clock.js'

/** A stretch of time in milliseconds since the epoch, its end not in it. */
export interface Period {
  readonly startMs: number
  /** Infinity where it has no end. */
  readonly endMs: number
}

/** Whole hours or days since the epoch, the end not among them. */
export interface BucketRange {
  /** In hours, as the rollups have it. */
  readonly span: 1 | 24
  readonly from: number
  readonly to: number
}

/** A period as whole buckets, and what is left of it at its ends. */
export interface PeriodParts {
  readonly buckets: readonly BucketRange[]
  readonly edges: readonly Period[]
  /** The whole hours, of which the deltas are read. */
  readonly hours: BucketRange
}

/** The lengths of the rollups' buckets, in hours. */
export const SPANS = [1, 24] as const

/** No timestamp is as late as this; in hours. */
const NO_END = Number.MAX_SAFE_INTEGER
const DAY_HOURS = DAY_MS / HOUR_MS

/** Cuts a period into whole days, whole hours around them, and less than an hour at each end. */
export function partsOf({ startMs, endMs }: Period): PeriodParts {
  const from = Math.ceil(startMs / HOUR_MS)
  const to = endMs === Number.POSITIVE_INFINITY ? NO_END : Math.floor(endMs / HOUR_MS)
  if (from >= to) {
    return { buckets: [], edges: [{ startMs, endMs }].filter(isNotEmpty), hours: { span: 1, from: 0, to: 0 } }
  }
  const edges = [
    { startMs, endMs: from * HOUR_MS },
    { startMs: to * HOUR_MS, endMs },
  ]
  return {
    buckets: bucketsOf(from, to),
    edges: to === NO_END ? edges.slice(0, 1).filter(isNotEmpty) : edges.filter(isNotEmpty),
    hours: { span: 1, from, to },
  }
}

function bucketsOf(from: number, to: number): BucketRange[] {
  const firstDay = Math.ceil(from / DAY_HOURS)
  const lastDay = to === NO_END ? NO_END : Math.floor(to / DAY_HOURS)
  if (firstDay >= lastDay) return [{ span: 1, from, to }]
  const ranges: BucketRange[] = [
    { span: 24, from: firstDay, to: lastDay },
    { span: 1, from, to: firstDay * DAY_HOURS },
    { span: 1, from: lastDay * DAY_HOURS, to: lastDay === NO_END ? 0 : to },
  ]
  return ranges.filter((range) => range.from < range.to)
}

function isNotEmpty({ startMs, endMs }: Period): boolean {
  return startMs < endMs
}
