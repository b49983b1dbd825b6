import type { Dialect, Query } from '../../database/dialect.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { watermarkSql } from './fold.js'

/** Whole hours since the epoch, without the end. */
export interface HourRange {
  readonly from: number
  readonly to: number
}

/** The part of the log that the rollups cover, at the moment of a snapshot. */
export interface Sums {
  /** Events up to this id are in the rollups. */
  readonly watermark: number
  /** Changes with the rollups of all hours but the present one, and with what is folded of their events. */
  readonly closedVersion: string
  /** The minutes of the events above the watermark; undefined without any. */
  readonly unfolded: { readonly from: number; readonly to: number } | undefined
  /** Buckets of one minute are complete from this minute on. */
  readonly minutesFrom: number
  /** Days that end before this hour, or at its beginning, have the requests of the busiest clients. */
  readonly busiestUntil: number
  /** Hours whose events have to be read from the log even so. */
  readonly dirty: readonly HourRange[]
}

/** The state without a watermark: all events are read from the log. */
const NOTHING_FOLDED = {
  watermark: 0,
  closedVersion: '',
  minutesFrom: Number.POSITIVE_INFINITY,
  busiestUntil: 0,
  unfolded: { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY },
}

/** Further ranges are merged into one, since each is a part of every query. */
const MAX_RANGES = 20

export async function readSums(query: Query, dialect: Dialect, nowMs: number): Promise<Sums> {
  const thisHour = Math.floor(nowMs / HOUR_MS)
  const events = dialect.table('rate_limit_event')
  const watermarks = dialect.table('rate_limit_watermark')
  // The trend grows with each event that is folded into an hour. Of the unfolded events the minutes are compared, not the
  // times: planners would look for the first time in its index, far below the watermark.
  const rows = await query<{
    watermark: number
    recounts: number
    minutesFrom: number
    busiestUntil: number
    folded: number | null
    first: number | null
    last: number | null
    hour: number | null
  }>(
    `SELECT event_id AS watermark, recounts, minutes_from AS "minutesFrom", busiest_until AS "busiestUntil",
       (SELECT SUM(total + denied) FROM ${dialect.table('rate_limit_trend')} WHERE hour < $1 OR hour > $1) AS folded,
       first, last, hour
     FROM ${watermarks} CROSS JOIN (
       SELECT MIN(minute) AS first, MAX(minute) AS last FROM (
         SELECT ${dialect.toMinute('"timestamp"')} AS minute FROM ${events}
         WHERE id > ${watermarkSql({ dialect })} AND id <= (SELECT MAX(id) FROM ${events})
       ) AS minutes
     ) AS unfolded
     LEFT JOIN (SELECT DISTINCT hour FROM ${dialect.table('rate_limit_rollup_mark')}) AS marked ON true ORDER BY hour`,
    [thisHour],
  )
  const dirty: { from: number; to: number }[] = []
  for (const { hour } of rows) {
    const last = dirty.at(-1)
    if (hour === null) continue
    if (last?.to === hour || (last && dirty.length === MAX_RANGES)) last.to = hour + 1
    else dirty.push({ from: hour, to: hour + 1 })
  }
  const [state] = rows
  if (state === undefined) return { ...NOTHING_FOLDED, dirty }
  const { watermark, minutesFrom, busiestUntil, folded, recounts, first, last } = state
  const closedVersion = `${thisHour} ${folded} ${recounts} ${Math.min(busiestUntil, thisHour)}`
  const unfolded = first === null || last === null ? undefined : { from: first, to: last + 1 }
  return { watermark, closedVersion, minutesFrom, busiestUntil, dirty, unfolded }
}
