import type { EventLogStats } from '../../src/index.js'
import { CLIENTS, type LoadResult } from './load.js'
import { REFUSED_SHARE, type Row } from './row.js'

/** The counts of the events of one measurement. */
export interface EventCounts {
  readonly recorded: number
  readonly dropped: number
  /** Not yet in the table when the load ended. */
  readonly buffered: number
}

/** The result of one run against one server. */
export interface Measurement {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Requests with a wrong answer or none. */
  readonly failures: number
  readonly events?: EventCounts
}

/** The tolerance of the share of refusals, in addition to the first request of every client, which is allowed. */
const SHARE_TOLERANCE = 0.02

/** @throws Error when a row that has to refuse refused a wrong share */
export function measurementOf(row: Row, result: LoadResult, events: EventCounts | undefined): Measurement {
  const { requestsPerSecond, p50Ms, p99Ms, answers, refusals, socketErrors } = result
  const refuses = row.bare === 'bare-refused'
  const share = refusals / answers
  const fewest = REFUSED_SHARE - SHARE_TOLERANCE - CLIENTS / answers
  if (refuses && (share < fewest || share > REFUSED_SHARE + SHARE_TOLERANCE)) {
    throw new Error(`Row ${row.id} refused ${(share * 100).toFixed(1)} % of its requests instead of 90 %`)
  }
  const failures = socketErrors + (refuses ? 0 : refusals)
  return { requestsPerSecond, p50Ms, p99Ms, failures, ...(events === undefined ? {} : { events }) }
}

export function eventsBetween(before: EventLogStats, after: EventLogStats): EventCounts {
  const recorded = (stats: EventLogStats) => stats.written + stats.dropped + stats.buffered
  return {
    recorded: recorded(after) - recorded(before),
    dropped: after.dropped - before.dropped,
    buffered: after.buffered,
  }
}
