/** The clients of a filtered page. No rollup has clients together with paths and methods: these are read from the events. */
import { CLIENT, POLICY } from '../events/readings.js'
import { compareBytes } from './breakdown.js'
import { CLIENT_SUMS, type ClientCounts, clientEventCounts, type PolicyCounts, sumRequests } from './client-counts.js'
import { keysForClient } from './client-keys.js'
import { turnedAway } from './clients-over-time.js'
import { type EventFilter, filtered, Parameters } from './filter.js'
import { readRuleNames } from './rule-names.js'
import type { ClientMeasure, TopClient } from './top-clients.js'
import { duringPeriod, type LogSnapshot, windowFor } from './window.js'

export interface CountedClient extends ClientCounts {
  readonly client: string
}

/**
 * Ranks the clients whose requests pass a filter.
 *
 * @returns by `refused`, only what was refused is counted
 */
export async function rankFilteredClients(
  { query, dialect, nowMs }: LogSnapshot,
  days: number,
  filter: EventFilter,
  by: ClientMeasure,
  limit: number,
): Promise<readonly CountedClient[]> {
  const parameters = new Parameters()
  const isRanked = by === 'refused' ? `${turnedAway(filter)} AND ` : ''
  const measure = by === 'refused' ? 'SUM(over_limit + denied)' : 'SUM(requests)'
  return query<CountedClient>(
    `SELECT client, ${CLIENT_SUMS} FROM (
       SELECT ${CLIENT} AS client, ${clientEventCounts()} FROM ${dialect.table('rate_limit_event')}
       WHERE ${isRanked}${duringPeriod(dialect, windowFor(days, nowMs), parameters)}${filtered(dialect, filter, parameters)}
     ) AS events WHERE client <> '' GROUP BY client
     ORDER BY ${measure} DESC, ${dialect.bytewise('client')} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
}

/** Reports the clients whose requests pass a filter, by all that passes it. */
export async function topFilteredClients(
  snapshot: LogSnapshot,
  days: number,
  filter: EventFilter,
  by: ClientMeasure,
  limit: number,
): Promise<readonly TopClient[]> {
  const ranked = await rankFilteredClients(snapshot, days, filter, by, limit)
  if (ranked.length === 0) return []
  const { query, dialect, nowMs } = snapshot
  const names = ranked.map(({ client }) => client)
  const rules = await readRuleNames(snapshot, days)
  const parameters = new Parameters()
  const keys = JSON.stringify([...new Set(names.flatMap((client) => keysForClient(client, rules)))])
  const rows = await query<PolicyCounts & { readonly client: string }>(
    `SELECT client, policy, ${CLIENT_SUMS} FROM (
       SELECT ${CLIENT} AS client, ${POLICY} AS policy, ${clientEventCounts()} FROM ${dialect.table('rate_limit_event')}
       WHERE ${dialect.isOneOf('key', parameters.add(keys), 'text')}
         AND ${duringPeriod(dialect, windowFor(days, nowMs), parameters)}${filtered(dialect, filter, parameters)}
     ) AS events WHERE ${dialect.isOneOf('client', parameters.add(JSON.stringify(names)), 'text')} GROUP BY client, policy`,
    parameters.values,
  )
  return ranked.map(({ client, ...counts }) => {
    const policies = rows
      .filter((row) => row.client === client)
      .map(({ client: _, ...its }) => its)
      .toSorted((one, other) => other.requests - one.requests || compareBytes(one.policy, other.policy))
    // A client that was cut to fit has keys that are unknown.
    return { client, ...(policies.length === 0 ? counts : sumRequests(policies)), policies }
  })
}
