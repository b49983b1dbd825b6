import type { Dialect, Query } from '../db/dialect.js'
import { DAY_MS } from '../time/clock.js'
import { DAY_SPAN, HOUR_SPAN } from './counting.js'

/** Whole hours since the epoch, without the end. */
export interface HourRange {
  readonly from: number
  readonly to: number
}

/** The part of the log that the rollups cover, at the moment of a snapshot. */
export interface Sums {
  /** Events up to this id are in the rollups. */
  readonly watermark: number
  /** Changes with the rollups of all days but the present one. */
  readonly closedVersion: string
  /** Hours whose events have to be read from the log even so. */
  readonly dirty: readonly HourRange[]
}

/** Further ranges are merged into one, since each is a part of every query. */
const MAX_RANGES = 20

export async function readSums(query: Query, dialect: Dialect, nowMs: number): Promise<Sums> {
  const today = (Math.floor(nowMs / DAY_MS) * DAY_SPAN) / HOUR_SPAN
  // The trend grows with each event that is folded into an hour.
  const rows = await query<{ watermark: number; recounts: number; folded: number | null; hour: number | null }>(
    `SELECT event_id AS watermark, recounts, hour,
       (SELECT SUM(total + denied) FROM ${dialect.table('rate_limit_trend')} WHERE hour < $1 OR hour >= $2) AS folded
     FROM ${dialect.table('rate_limit_watermark')}
     LEFT JOIN (SELECT DISTINCT hour FROM ${dialect.table('rate_limit_rollup_mark')}) AS marked ON true ORDER BY hour`,
    [today, today + DAY_SPAN / HOUR_SPAN],
  )
  const dirty: { from: number; to: number }[] = []
  for (const { hour } of rows) {
    const last = dirty.at(-1)
    if (hour === null) continue
    if (last?.to === hour || (last && dirty.length === MAX_RANGES)) last.to = hour + 1
    else dirty.push({ from: hour, to: hour + 1 })
  }
  const [state] = rows
  return { watermark: state?.watermark ?? 0, closedVersion: `${state?.folded} ${state?.recounts}`, dirty }
}
