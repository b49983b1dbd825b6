import type { TrafficCounts } from './breakdown.js'
import { countTraffic } from './traffic.js'
import { checkDays, type Report, type WindowOptions, windowOf } from './window.js'

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
  return async (snapshot) => summaryOf(days, await countTraffic(snapshot, windowOf(days, snapshot.nowMs)))
}

export function summaryOf(days: number, { total, blocked }: Pick<TrafficCounts, 'total' | 'blocked'>): TrafficSummary {
  return { days, total, allowed: total - blocked, blocked, block_rate: blockRate(blocked, total) }
}

export function blockRate(blocked: number, total: number): number {
  return total === 0 ? 0 : blocked / total
}
