import { LAST_MINUTE } from '../db/dialect.js'
import { DAY_SPAN, HOUR_SPAN } from '../rollups/counting.js'
import type { HourRange } from '../rollups/sums.js'
import { DAY_MS, HOUR_MS } from '../time/clock.js'

/** A period in milliseconds since the epoch; its end is exclusive. */
export interface Period {
  readonly startMs: number
  /** Infinity for a period without end. */
  readonly endMs: number
}

/** Whole hours or days since the epoch; the end is exclusive. */
export interface BucketRange {
  /** In minutes, as in the rollups. */
  readonly span: 60 | 1440
  readonly from: number
  readonly to: number
}

/** The remainder at an end of a period, or all of a short one: its events are read. */
export interface Edge extends Period {
  /** 1 adds its events to the whole buckets; -1 subtracts events that these have in excess. */
  readonly sign: 1 | -1
}

/** A period as whole buckets, and its differences from them. */
export interface SplitPeriod {
  readonly buckets: readonly BucketRange[]
  readonly edges: readonly Edge[]
  /** The whole hours, whose events above the watermark are read. */
  readonly hours: HourRange
  /** Hours among them whose other events are read too. */
  readonly dirty: readonly Period[]
}

const DAY_HOURS = DAY_SPAN / HOUR_SPAN
/** Later than any hour: the end of the day that holds all very late events. */
const NO_END = LAST_MINUTE / HOUR_SPAN + DAY_HOURS

export interface RoundingOptions {
  /** Hours whose buckets are out of date. */
  readonly dirty: readonly HourRange[]
  /** Whether buckets may exceed the period, less the excess; otherwise up to an hour of events is read at each end. */
  readonly takesAway?: boolean
  /** The longest buckets; days unless given. */
  readonly longest?: BucketRange['span']
}

/**
 * Rounds a period to whole days and hours, and returns the differences at its ends. So at most half an hour of events
 * is read at each end, which matters where the log is long.
 */
export function splitPeriod(
  { startMs, endMs }: Period,
  { dirty, takesAway = true, longest = DAY_SPAN }: RoundingOptions,
): SplitPeriod {
  const from = takesAway ? Math.round(startMs / HOUR_MS) : Math.ceil(startMs / HOUR_MS)
  const to = Math.min(NO_END, takesAway ? Math.round(endMs / HOUR_MS) : Math.floor(endMs / HOUR_MS))
  if (from >= to) {
    const edges: Edge[] = [{ startMs, endMs, sign: 1 }]
    return { buckets: [], edges: edges.filter(isNotEmpty), hours: { from: 0, to: 0 }, dirty: [] }
  }
  const [fromMs, toMs] = [from * HOUR_MS, to === NO_END ? Number.POSITIVE_INFINITY : to * HOUR_MS]
  const edges: Edge[] = [
    { startMs, endMs: fromMs, sign: 1 },
    { startMs: fromMs, endMs: startMs, sign: -1 },
    { startMs: toMs, endMs, sign: 1 },
    { startMs: endMs, endMs: toMs, sign: -1 },
  ]
  const ranges: HourRange[] = []
  const dirtyParts: Period[] = []
  let next = from
  for (const range of dirty) {
    const [dirtyFrom, dirtyTo] = [Math.max(next, range.from), Math.min(to, range.to)]
    if (dirtyFrom >= dirtyTo) continue
    ranges.push({ from: next, to: dirtyFrom })
    // The last hour contains all later events.
    const endMs = dirtyTo * HOUR_SPAN > LAST_MINUTE ? Number.POSITIVE_INFINITY : dirtyTo * HOUR_MS
    dirtyParts.push({ startMs: dirtyFrom * HOUR_MS, endMs })
    next = dirtyTo
  }
  ranges.push({ from: next, to })
  const buckets = ranges.flatMap((range) => toBuckets(range, longest))
  return { buckets, edges: edges.filter(isNotEmpty), hours: { from, to }, dirty: dirtyParts }
}

/** Divides buckets into those of other days than the present one, and those of the present day. */
export function splitAtToday(buckets: readonly BucketRange[], nowMs: number) {
  const today = Math.floor(nowMs / DAY_MS)
  const closed: BucketRange[] = []
  const open: BucketRange[] = []
  for (const { span, from, to } of buckets) {
    const first = (today * DAY_SPAN) / span
    const next = first + DAY_SPAN / span
    closed.push({ span, from, to: Math.min(to, first) }, { span, from: Math.max(from, next), to })
    open.push({ span, from: Math.max(from, first), to: Math.min(to, next) })
  }
  const isNotEmpty = ({ from, to }: BucketRange) => from < to
  return { closed: closed.filter(isNotEmpty), open: open.filter(isNotEmpty) }
}

function toBuckets({ from, to }: HourRange, longest: BucketRange['span']): BucketRange[] {
  const firstDay = Math.ceil(from / DAY_HOURS)
  const lastDay = Math.floor(to / DAY_HOURS)
  const hours: BucketRange = { span: HOUR_SPAN, from, to }
  if (longest === HOUR_SPAN || firstDay >= lastDay) return from < to ? [hours] : []
  const ranges: BucketRange[] = [
    { span: DAY_SPAN, from: firstDay, to: lastDay },
    { ...hours, to: firstDay * DAY_HOURS },
    { ...hours, from: lastDay * DAY_HOURS },
  ]
  return ranges.filter((range) => range.from < range.to)
}

function isNotEmpty({ startMs, endMs }: Period): boolean {
  return startMs < endMs
}
