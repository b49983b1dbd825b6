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

/** What is left at an end of a period, or is all there is of a short one: its events are read. */
export interface Edge extends Period {
  /** Its events are added to the whole buckets; or taken away, where it is what these have too much. */
  readonly sign: 1 | -1
}

/** A period as whole buckets, and what differs from these at its ends. */
export interface PeriodParts {
  readonly buckets: readonly BucketRange[]
  readonly edges: readonly Edge[]
  /** The whole hours, of which the deltas are read. */
  readonly hours: BucketRange
}

/** The lengths of the rollups' buckets, in hours. */
export const SPANS = [1, 24] as const

/** No timestamp is as late as this; in hours. */
export const NO_END = Number.MAX_SAFE_INTEGER
const DAY_HOURS = DAY_MS / HOUR_MS

/**
 * Rounds a period to whole days and hours, and tells what differs from it at its ends. So no more than half an hour of
 * events is read at each end, of which there are many where the log is long.
 *
 * @param takesAway whether it may be rounded to more than there is; otherwise up to an hour is read
 */
export function partsOf({ startMs, endMs }: Period, takesAway = true): PeriodParts {
  const from = takesAway ? Math.round(startMs / HOUR_MS) : Math.ceil(startMs / HOUR_MS)
  const to = takesAway ? Math.round(endMs / HOUR_MS) : Math.floor(endMs / HOUR_MS)
  if (from >= to) {
    const edges: Edge[] = [{ startMs, endMs, sign: 1 }]
    return { buckets: [], edges: edges.filter(isNotEmpty), hours: { span: 1, from: 0, to: 0 } }
  }
  const [fromMs, toMs] = [from * HOUR_MS, to * HOUR_MS]
  const edges: Edge[] = [
    { startMs, endMs: fromMs, sign: 1 },
    { startMs: fromMs, endMs: startMs, sign: -1 },
    { startMs: toMs, endMs, sign: 1 },
    { startMs: endMs, endMs: toMs, sign: -1 },
  ]
  const hours: BucketRange = { span: 1, from, to: Math.min(to, NO_END) }
  return { buckets: bucketsOf(hours.from, hours.to), edges: edges.filter(isNotEmpty), hours }
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
