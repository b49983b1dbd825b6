import type { TrafficCounts } from './breakdown.js'
import { countTraffic } from './traffic.js'
import { type Coverage, type Report, toCoverage, validateDays, type WindowOptions, windowFor } from './window.js'

export interface TrafficSummary extends Coverage {
  readonly days: number
  readonly total: number
  readonly allowed: number
  readonly blocked: number
  /** `blocked / total`, unrounded; 0 without traffic. */
  readonly block_rate: number
}

/** Reports the number of requests, and of those refused. */
export function trafficSummary({ days = 1 }: WindowOptions = {}): Report<TrafficSummary> {
  validateDays(days)
  return async (snapshot) => {
    const summary = toSummary(days, await countTraffic(snapshot, windowFor(days, snapshot.nowMs)))
    return { ...summary, ...toCoverage(snapshot) }
  }
}

export function toSummary(days: number, { total, blocked }: Pick<TrafficCounts, 'total' | 'blocked'>): TrafficSummary {
  return { days, total, allowed: total - blocked, blocked, block_rate: blockRate(blocked, total) }
}

export function blockRate(blocked: number, total: number): number {
  return total === 0 ? 0 : blocked / total
}
