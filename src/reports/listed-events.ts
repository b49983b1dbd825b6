/** The list of the events of the log, the newest first, and what it shows of each. */
import type { Database } from '../database/database.js'
import type { Dialect } from '../database/dialect.js'
import { type List, type Order, orderBy, type Parameters, readPage } from '../database/list.js'
import { CLIENT, OUTCOME, POLICY } from '../log/event-sql.js'
import { clampedIsoTime, type LogSnapshot, type Report } from './report.js'

export interface RecentEvent {
  /** ISO 8601, UTC. */
  readonly timestamp: string
  readonly path: string
  readonly method: string
  readonly allowed: boolean
  readonly count: number
  readonly limit: number
  /** The rule; empty when none matched. */
  readonly rule_name: string
  /** How many requests the row stands for, where these are several; the time and the count are those of the last one. */
  readonly weight?: number
}

export interface ClientEvent extends RecentEvent {
  readonly id: number
  /** The client; of a network, the one that sent the request. */
  readonly client: string
  readonly key: string
  readonly policy: string
  /** `allowed`, `over_limit` (refused, or with `allowed` true: would have been), `denied` or `unavailable`. */
  readonly outcome: string
  /** The rules that applied, each with `+` or (refused) `-` before it, joined by `:`; empty unless several did. */
  readonly rules: string
}

/** An event as the log has it. */
export interface ListedEvent extends Omit<ClientEvent, 'timestamp' | 'allowed'> {
  readonly timestampMs: number
  readonly allowed: boolean | number
  readonly weight: number
  readonly ip_address: string | null
  readonly client_ip: string | null
  readonly user_id: number | null
}

/** The position of an event in the list. */
export type EventPosition = readonly [timestampMs: number, id: number]

const COLUMNS = `id, "timestamp" AS "timestampMs", key, ip_address, client_ip, user_id, path, method, rule_name, allowed,
  count, "limit", rules, weight, (${CLIENT}) AS client, (${POLICY}) AS policy, (${OUTCOME}) AS outcome`

/** The newest first. */
export const EVENT_ORDER: Order = [
  { sql: '"timestamp"', kind: 'moment', isDescending: true },
  { sql: 'id', kind: 'whole', isDescending: true },
]
export const NEWEST_FIRST = orderBy(EVENT_ORDER)

/** Returns the statement that reads events, up to its WHERE. */
export function selectEvents({ table }: Dialect): string {
  return `SELECT ${COLUMNS} FROM ${table('rate_limit_event')}`
}

/** Returns the list of the events that pass some conditions. */
export function eventList(
  { query, dialect }: Pick<Database, 'query' | 'dialect'>,
  where: List<ListedEvent>['where'],
): List<ListedEvent> {
  return {
    order: EVENT_ORDER,
    where,
    position: ({ timestampMs, id }) => [timestampMs, id],
    select: (rest, { values }) => query(`${selectEvents(dialect)} ${rest}`, values),
  }
}

/** Reads the events of some ids, the newest first. */
export async function readEventsOf(snapshot: LogSnapshot, ids: readonly number[]): Promise<ListedEvent[]> {
  const { dialect } = snapshot
  const list = eventList(snapshot, (parameters) => [
    dialect.isOneOf('id', parameters.add(JSON.stringify(ids)), 'bigint'),
  ])
  return (await readPage(dialect, list, { limit: ids.length })).rows
}

/** Finds one event; undefined where the log does not have it, or no longer. */
export function eventById(id: number): Report<ListedEvent | undefined> {
  return async (snapshot) => (await readEventsOf(snapshot, [id]))[0]
}

/** Reads the latest events that pass a condition, the newest first. */
export async function readRecentEvents(
  snapshot: LogSnapshot,
  condition: (parameters: Parameters) => string,
  limit: number,
): Promise<ClientEvent[]> {
  const list = eventList(snapshot, (parameters) => [condition(parameters)])
  return (await readPage(snapshot.dialect, list, { limit })).rows.map(toClientEvent)
}

/** Returns what reports and pages show of an event. */
export function toClientEvent({
  timestampMs,
  allowed,
  weight,
  ip_address: _address,
  client_ip: _counted,
  user_id: _user,
  ...event
}: ListedEvent): ClientEvent {
  return {
    ...event,
    timestamp: clampedIsoTime(timestampMs),
    allowed: Boolean(allowed),
    ...(weight > 1 && { weight }),
  }
}
