import { checkDays, type Report, reportStartMs, type WindowOptions, withinWindow } from './window.js'

export interface TrafficSummary {
  readonly days: number
  readonly total: number
  readonly allowed: number
  readonly blocked: number
  /** `blocked / total`, unrounded; 0 without traffic. */
  readonly block_rate: number
}

/** How much was asked for, and how much of it was refused. */
export function trafficSummary({ days = 1 }: WindowOptions = {}): Report<TrafficSummary> {
  checkDays(days)
  return async ({ query, dialect, nowMs }) => {
    // Naming both values lets the index on (allowed, timestamp) answer alone, without a look at the table.
    const counts = await query<{ allowed: boolean | number; events: number }>(
      `SELECT allowed, COUNT(*) AS events FROM ${dialect.table('rate_limit_event')}
       WHERE allowed IN (true, false) AND ${withinWindow(dialect)} GROUP BY allowed`,
      [reportStartMs(days, nowMs)],
    )
    const allowed = counts.find((row) => Boolean(row.allowed))?.events ?? 0
    const blocked = counts.find((row) => !row.allowed)?.events ?? 0
    const total = allowed + blocked
    return { days, total, allowed, blocked, block_rate: blockRate(blocked, total) }
  }
}

export function blockRate(blocked: number, total: number): number {
  return total === 0 ? 0 : blocked / total
}
