import { HOUR_MS, MINUTE_MS } from '../ground/time/clock.js'
import { DAY_SPAN, HOUR_SPAN, type Span } from '../log/rollups/counting.js'
import type { HourRange } from '../log/rollups/sums.js'

/** A period in milliseconds since the epoch; its end is exclusive. */
export interface Period {
  readonly startMs: number
  readonly endMs: number
}

/** Whole minutes, hours or days since the epoch; the end is exclusive. */
export interface BucketRange {
  /** The length in minutes, as in the rollups. */
  readonly span: Span
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
  /** Whole minutes by which the buckets differ from `minutes`: their events up to the watermark are read. */
  readonly wholeMinutes: readonly Edge[]
  /** All events of these are read. */
  readonly edges: readonly Edge[]
  /** The minutes of the buckets and of `wholeMinutes`, whose events above the watermark are read. */
  readonly minutes: { readonly from: number; readonly to: number }
  /** Parts of them whose other events are read too. */
  readonly dirty: readonly Period[]
}

const DAY_HOURS = DAY_SPAN / HOUR_SPAN
/** The whole minutes at an end are read in two parts, of which the longer one is known for so long. */
const PIECE_MS = 10 * MINUTE_MS
const NO_MINUTES = { from: 0, to: 0 }

interface RoundingOptions {
  /** Hours whose buckets are out of date. */
  readonly dirty: readonly HourRange[]
  /** Buckets of a minute are complete from this minute on. A period that begins there is read by minutes. */
  readonly minutesFrom: number
  /** Whether buckets may exceed the period, less the excess; otherwise up to an hour of events is read at each end. */
  readonly takesAway?: boolean
  /** The longest buckets; days unless given. */
  readonly longest?: Span
  /** The hour before which days must end; no hour unless given. */
  readonly daysUntil?: number
}

/** A period of which all events are read. */
export function unsplit(period: Period): SplitPeriod {
  const edges: Edge[] = [{ ...period, sign: 1 }]
  return { buckets: [], wholeMinutes: [], edges: edges.filter(isNotEmpty), minutes: NO_MINUTES, dirty: [] }
}

/**
 * Rounds a period to whole days and hours, or whole minutes, and returns the differences at its ends. So at most half an
 * hour of events is read at each end, which matters where the log is long; and less than a minute of it with each report,
 * since the whole minutes are known from an earlier one.
 */
export function splitPeriod(
  { startMs, endMs }: Period,
  { dirty, minutesFrom, takesAway = true, longest = DAY_SPAN, daysUntil = Number.POSITIVE_INFINITY }: RoundingOptions,
): SplitPeriod {
  const unit: Span = startMs >= minutesFrom * MINUTE_MS ? 1 : HOUR_SPAN
  const unitMs = unit * MINUTE_MS
  const from = takesAway ? Math.round(startMs / unitMs) : Math.ceil(startMs / unitMs)
  const to = takesAway ? Math.round(endMs / unitMs) : Math.floor(endMs / unitMs)
  if (from >= to || unit > longest) return unsplit({ startMs, endMs })
  const [fromMs, toMs] = [from * unitMs, to * unitMs]
  const [startMinuteMs, endMinuteMs] = [towards(startMs, fromMs, MINUTE_MS), towards(endMs, toMs, MINUTE_MS)]
  const [startPieceMs, endPieceMs] = [towards(startMs, fromMs, PIECE_MS), towards(endMs, toMs, PIECE_MS)]
  const ranges: HourRange[] = []
  const dirtyParts: Period[] = []
  let next = from
  for (const range of dirty) {
    const [dirtyFrom, dirtyTo] = [
      Math.max(next, (range.from * HOUR_SPAN) / unit),
      Math.min(to, (range.to * HOUR_SPAN) / unit),
    ]
    if (dirtyFrom >= dirtyTo) continue
    ranges.push({ from: next, to: dirtyFrom })
    dirtyParts.push({ startMs: dirtyFrom * unitMs, endMs: dirtyTo * unitMs })
    next = dirtyTo
  }
  ranges.push({ from: next, to })
  const toRanges = (range: HourRange): BucketRange[] =>
    unit === 1 ? [{ span: 1, ...range }] : toBuckets(range, longest === DAY_SPAN ? daysUntil : Number.NEGATIVE_INFINITY)
  const buckets = ranges.flatMap(toRanges).filter((range) => range.from < range.to)
  return {
    buckets,
    wholeMinutes: [
      ...between(startMinuteMs, startPieceMs),
      ...between(startPieceMs, fromMs),
      ...between(toMs, endPieceMs),
      ...between(endPieceMs, endMinuteMs),
    ],
    edges: [...between(startMs, startMinuteMs), ...between(endMinuteMs, endMs)],
    minutes: { from: startMinuteMs / MINUTE_MS, to: endMinuteMs / MINUTE_MS },
    dirty: dirtyParts,
  }
}

/** Returns the whole unit of time next to a moment, on the side of another one, which is whole. */
function towards(ms: number, wholeMs: number, unitMs: number): number {
  if (ms === wholeMs || Math.abs(ms - wholeMs) < unitMs) return wholeMs
  return (wholeMs < ms ? Math.floor(ms / unitMs) : Math.ceil(ms / unitMs)) * unitMs
}

/** Returns what is between two moments: to be subtracted where the first one is the later one. */
function between(fromMs: number, toMs: number): Edge[] {
  if (fromMs === toMs) return []
  return fromMs < toMs ? [{ startMs: fromMs, endMs: toMs, sign: 1 }] : [{ startMs: toMs, endMs: fromMs, sign: -1 }]
}

/** Divides buckets into those of other hours than the present one, and those of the present one. */
export function splitAtPresent(buckets: readonly BucketRange[], nowMs: number) {
  const hour = bucketAround(HOUR_SPAN, nowMs)
  const today = bucketAround(DAY_SPAN, nowMs)
  // The bucket of the present day is read as its hours.
  const divided = buckets.flatMap((range) =>
    range.span === DAY_SPAN ? [...without(range, today), ...within(range, today).map(toHours)] : [range],
  )
  return {
    closed: divided.flatMap((range) => without(range, hour)),
    open: divided.flatMap((range) => within(range, hour)),
  }
}

/** Returns whether a period has nothing of the present hour, nor of a dirty one. */
export function isClosed({ startMs, endMs }: Period, dirty: readonly HourRange[], nowMs: number): boolean {
  const present = Math.floor(nowMs / HOUR_MS)
  const isOutside = ({ from, to }: HourRange) => endMs <= from * HOUR_MS || startMs >= to * HOUR_MS
  return [{ from: present, to: present + 1 }, ...dirty].every(isOutside)
}

/** A period in minutes. */
interface Minutes {
  readonly from: number
  readonly to: number
}

/** Returns the day, or the hour, that contains a moment. */
function bucketAround(span: Span, ms: number): Minutes {
  const from = Math.floor(ms / MINUTE_MS / span) * span
  return { from, to: from + span }
}

function within({ span, from, to }: BucketRange, minutes: Minutes): BucketRange[] {
  const range = { span, from: Math.max(from, minutes.from / span), to: Math.min(to, minutes.to / span) }
  return range.from < range.to ? [range] : []
}

function without(range: BucketRange, { from, to }: Minutes): BucketRange[] {
  return [...within(range, { from: 0, to: from }), ...within(range, { from: to, to: Number.POSITIVE_INFINITY })]
}

function toHours({ from, to }: BucketRange): BucketRange {
  return { span: HOUR_SPAN, from: from * DAY_HOURS, to: to * DAY_HOURS }
}

/** @param daysUntil the hour before which days must end */
function toBuckets({ from, to }: HourRange, daysUntil: number): BucketRange[] {
  const firstDay = Math.ceil(from / DAY_HOURS)
  const lastDay = Math.floor(Math.min(to, daysUntil) / DAY_HOURS)
  if (firstDay >= lastDay) return [{ span: HOUR_SPAN, from, to }]
  return [
    { span: DAY_SPAN, from: firstDay, to: lastDay },
    { span: HOUR_SPAN, from, to: firstDay * DAY_HOURS },
    { span: HOUR_SPAN, from: lastDay * DAY_HOURS, to },
  ]
}

function isNotEmpty({ startMs, endMs }: Period): boolean {
  return startMs < endMs
}
