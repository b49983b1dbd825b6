import type { Dialect } from '../database/dialect.js'
import type { Parameters } from '../database/list.js'
import { CLIENT, countedRequests, IS_DENIED, IS_REFUSED, IS_WOULD_BLOCK, POLICY } from '../log/event-sql.js'
import { CLIENTS, REQUESTS } from '../log/rollups/counting.js'
import type { Sums } from '../log/rollups/sums.js'
import { compareBytes } from './breakdown.js'
import { oneByOne } from './filter.js'
import { type LoggedParts, readSplit } from './logged-events.js'
import { type BucketRange, type Period, type SplitPeriod, splitPeriod } from './period.js'
import type { LogSnapshot } from './report.js'

/** The requests of a client. A request that no store could decide is a request, and nothing else. */
export interface ClientCounts {
  /** All of them, denied ones too. */
  readonly requests: number
  /** Refused by a limit. */
  readonly over_limit: number
  /** The requests over a limit that does not block, and so let through. */
  readonly would_be: number
  /** Refused by the deny list, an override or a ban. */
  readonly denied: number
}

/** The requests that one policy decided. */
export interface PolicyCounts extends ClientCounts {
  /** A rule's name, a prefix such as `/auth/`, `default`, `override`, `deny-list`, `ceiling`, or a route's limit. */
  readonly policy: string
}

export const NO_REQUESTS: ClientCounts = { requests: 0, over_limit: 0, would_be: 0, denied: 0 }

export function sumRequests(counted: readonly ClientCounts[]): ClientCounts {
  let { requests, over_limit, would_be, denied } = NO_REQUESTS
  for (const counts of counted) {
    requests += counts.requests
    over_limit += counts.over_limit
    would_be += counts.would_be
    denied += counts.denied
  }
  return { requests, over_limit, would_be, denied }
}

const IS_OVER_LIMIT = `${IS_REFUSED} AND outcome <> 'unavailable'`

/** Returns what an event adds to the counts of its client, or takes away. */
export function clientEventCounts(sign: 1 | -1 = 1): string {
  const counted = (condition: string) => countedRequests(condition, sign)
  return `${counted('true')} AS requests, ${counted(IS_OVER_LIMIT)} AS over_limit, ${counted(IS_WOULD_BLOCK)} AS would_be,
    ${counted(IS_DENIED)} AS denied`
}

export const CLIENT_SUMS =
  'SUM(requests) AS requests, SUM(over_limit) AS over_limit, SUM(would_be) AS would_be, SUM(denied) AS denied'

/** Divides a period for both rollups of clients. A client that an hour does not keep cannot be subtracted from it. */
export function splitForClients(period: Period, sums: Sums): SplitPeriod {
  return splitPeriod(period, { ...sums, takesAway: false, daysUntil: sums.busiestUntil })
}

/** Creates the queries of the counts of clients in whole buckets. */
export function clientBuckets(
  dialect: Dialect,
  ranges: readonly BucketRange[],
  condition: (range: BucketRange) => string,
): string[] {
  return ranges.flatMap((range) => {
    const where = `WHERE span = ${range.span} AND ${condition(range)}`
    return [
      `SELECT client, policy, 0 AS requests, over_limit, would_block AS would_be, denied
       FROM ${dialect.table(CLIENTS.table)} ${where}`,
      `SELECT client, policy, requests, 0, 0, 0 FROM ${dialect.table(REQUESTS.table)} ${where}`,
    ]
  })
}

/** Creates the queries of the counts of clients in the events that the buckets of a period lack. */
export function clientEvents(
  { dialect }: LogSnapshot,
  logged: LoggedParts,
  parameters: Parameters,
  condition: () => string,
): string[] {
  return logged(parameters).map(
    ({ where, sign }) =>
      `SELECT ${CLIENT} AS client, ${POLICY} AS policy, ${clientEventCounts(sign)}
       FROM ${dialect.table('rate_limit_event')} WHERE ${where} AND ${condition()}`,
  )
}

/**
 * Reads the requests of some clients, by policy: the most requests first, then by the policy's bytes. Refusals are exact;
 * of the other requests the hours in which the client was plainly allowed count where it was among the busiest.
 */
export async function readClientCounts(
  snapshot: LogSnapshot,
  period: Period,
  clients: readonly string[],
): Promise<Map<string, PolicyCounts[]>> {
  const { dialect } = snapshot
  const split = splitForClients(period, snapshot.sums)
  const names = JSON.stringify(clients)
  const rows = await readSplit<PolicyCounts & { readonly client: string }>(snapshot, split, {
    select: (counts) => `SELECT client, policy, ${CLIENT_SUMS} FROM (${counts}) AS counts GROUP BY client, policy`,
    buckets: (ranges, parameters) => {
      const isOneOfThem = dialect.isOneOf('client', parameters.add(names), 'text')
      return clientBuckets(
        dialect,
        ranges,
        (range) => `${oneByOne(dialect, 'bucket', range, parameters)} AND ${isOneOfThem}`,
      )
    },
    events: (logged, parameters) =>
      clientEvents(snapshot, logged, parameters, () => dialect.isOneOf(`(${CLIENT})`, parameters.add(names), 'text')),
  })
  const counted = new Map<string, Map<string, PolicyCounts>>(clients.map((client) => [client, new Map()]))
  for (const { client, policy, ...counts } of rows) {
    const policies = counted.get(client)
    policies?.set(policy, { policy, ...sumRequests([counts, policies.get(policy) ?? NO_REQUESTS]) })
  }
  return new Map([...counted].map(([client, policies]) => [client, [...policies.values()].toSorted(byRequests)]))
}

/** Compares for a list: the most requests first, then by the policy's bytes. */
export function byRequests(one: PolicyCounts, other: PolicyCounts): number {
  return other.requests - one.requests || compareBytes(one.policy, other.policy)
}
