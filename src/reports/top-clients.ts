import { Parameters } from '../database/list.js'
import { InvalidSettingError } from '../ground/errors.js'
import { IS_SUM } from '../log/event-sql.js'
import { type ClientCounts, type PolicyCounts, readClientCounts, sumRequests } from './client-counts.js'
import { duringPeriod } from './logged-events.js'
import { CLIENTS_BY_REFUSALS, CLIENTS_BY_REQUESTS } from './ranked-counts.js'
import { rank } from './ranking.js'
import { report } from './registration.js'
import type { LogSnapshot, RankingOptions, Report } from './report.js'
import { type ReportWindow, toWindow, type WindowOptions, windowFor } from './report-window.js'

/** A client, whatever limits it met: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`. */
export interface TopClient extends ClientCounts {
  readonly client: string
  /** The policies that decided about it: the most requests first, then by name. */
  readonly policies: readonly PolicyCounts[]
}

/** The measure of a ranking. */
export type ClientMeasure = keyof typeof RANKINGS

const RANKINGS = { refused: CLIENTS_BY_REFUSALS, requests: CLIENTS_BY_REQUESTS } as const

export interface TopClientsOptions extends RankingOptions {
  /**
   * `refused` (the default) lists the clients with the most requests over a limit or denied, and is exact. `requests`
   * lists those with the most requests, among the busiest 500 of each hour and those that were refused something in it.
   */
  readonly by?: ClientMeasure | undefined
}

/** Reports the clients that were refused the most, or that asked the most, over all rules. */
export const topClients = report<TopClientsOptions, readonly TopClient[]>()({
  name: 'listClients',
  summary: 'List the clients with the most refusals, or requests',
  window: 7,
  limit: 100,
  options: ({ type }) => ({ by: type.Optional(type.Enum(['refused', 'requests'], { default: 'refused' })) }),
  answer: ({ text, clientCounts, listOf }) => ({
    client: text,
    ...clientCounts,
    policies: listOf({ policy: text, ...clientCounts }),
  }),
  columns: ['client', 'requests', 'over_limit', 'would_be', 'denied'],
  async read({ window, limit, by = 'refused' }, snapshot) {
    validateMeasure(by)
    return countClients(snapshot, window, await rankClients(snapshot, window, by, limit))
  },
})

/** Reports whether the log only adds up allowed requests of a window, so that no ranking of clients counts them. */
export function hasSums(options: WindowOptions): Report<boolean> {
  const window = toWindow(options, 7)
  return async ({ query, dialect, nowMs }) => {
    const parameters = new Parameters()
    const isWithin = duringPeriod(dialect, windowFor(window, nowMs), parameters)
    const sql = `SELECT 1 FROM ${dialect.table('rate_limit_event')} WHERE ${IS_SUM} AND ${isWithin} LIMIT 1`
    return (await query(sql, parameters.values)).length > 0
  }
}

/** Returns the clients that were refused the most, or that asked the most. */
export async function rankClients(
  snapshot: LogSnapshot,
  window: ReportWindow,
  by: ClientMeasure,
  limit: number,
): Promise<readonly string[]> {
  const ranked = await rank(snapshot, RANKINGS[by], window, { limit, atLeast: 1 })
  return ranked.map(({ name }) => name)
}

/** Counts the requests of clients, in their order. */
export async function countClients(
  snapshot: LogSnapshot,
  window: ReportWindow,
  clients: readonly string[],
): Promise<readonly TopClient[]> {
  if (clients.length === 0) return []
  const counts = await readClientCounts(snapshot, windowFor(window, snapshot.nowMs), clients)
  return clients.map((client) => {
    const policies = counts.get(client) ?? []
    return { client, ...sumRequests(policies), policies }
  })
}

/** Returns what clients are ranked by. */
export function measureOf({ requests, over_limit, denied }: ClientCounts, by: ClientMeasure): number {
  return by === 'requests' ? requests : over_limit + denied
}

/** @throws InvalidSettingError for anything but `refused` and `requests` */
export function validateMeasure(by: string): void {
  if (Object.hasOwn(RANKINGS, by)) return
  throw new InvalidSettingError(`Option "by" is ${JSON.stringify(by)}: give "refused" or "requests"`)
}
