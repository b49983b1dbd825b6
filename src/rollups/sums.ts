import type { Dialect, Query } from '../db/dialect.js'

/** Whole hours since the epoch, without the end. */
export interface HourRange {
  readonly from: number
  readonly to: number
}

/** The part of the log that the rollups cover, at the moment of a snapshot. */
export interface Sums {
  /** Events up to this id are in the rollups. */
  readonly watermark: number
  /** How often hours were counted again. */
  readonly recounts: number
  /** Hours whose events have to be read from the log even so. */
  readonly dirty: readonly HourRange[]
}

/** Further ranges are merged into one, since each is a part of every query. */
const MAX_RANGES = 20

export async function readSums(query: Query, dialect: Dialect): Promise<Sums> {
  const rows = await query<{ watermark: number; recounts: number; hour: number | null }>(
    `SELECT event_id AS watermark, recounts, hour FROM ${dialect.table('rate_limit_watermark')}
     LEFT JOIN (SELECT DISTINCT hour FROM ${dialect.table('rate_limit_rollup_mark')}) AS marked ON true ORDER BY hour`,
  )
  const dirty: { from: number; to: number }[] = []
  for (const { hour } of rows) {
    const last = dirty.at(-1)
    if (hour === null) continue
    if (last?.to === hour || (last && dirty.length === MAX_RANGES)) last.to = hour + 1
    else dirty.push({ from: hour, to: hour + 1 })
  }
  return { watermark: rows[0]?.watermark ?? 0, recounts: rows[0]?.recounts ?? 0, dirty }
}
