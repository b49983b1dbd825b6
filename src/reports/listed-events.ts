/** Lists the events of the log, the newest first, page by page. */
import type { Dialect, SqlValue } from '../database/dialect.js'
import { InvalidSettingError } from '../ground/errors.js'
import type { EventOutcome } from '../log/event.js'
import { CLIENT, hasApplied, OUTCOME, POLICY } from '../log/event-sql.js'
import { filtered, Parameters } from './filter.js'
import { isOfClients, type LoggedClients, loggedClients } from './logged-clients.js'
import { type LogSnapshot, type Report, toLogged } from './report.js'

/** The events of a list. An undefined field excludes none. */
interface ListedFilter {
  /** The key as the log has it. */
  readonly key?: string | undefined
  /** A client or a network, in any spelling, under all rules. */
  readonly client?: string | undefined
  /** The policy that decided, or a rule that applied beside others. */
  readonly policy?: string | undefined
  readonly outcome?: EventOutcome | undefined
  readonly allowed?: boolean | undefined
  /** The beginning of the path. */
  readonly path?: string | undefined
  readonly method?: string | undefined
  /** The moment from which on events are listed, in milliseconds. */
  readonly sinceMs?: number | undefined
  /** The moment before which events are listed, in milliseconds. */
  readonly untilMs?: number | undefined
}

/** The position of an event in the list, whatever is inserted before or behind it. */
export interface EventPosition {
  readonly timestampMs: number
  readonly id: number
}

export interface ListedEvent extends EventPosition {
  readonly allowed: boolean | number
  readonly method: string
  readonly path: string
  readonly client: string
  readonly key: string
  readonly policy: string
  /** The rule; empty where none decided. */
  readonly rule_name: string
  /** The outcome as of `ClientEvent`. */
  readonly outcome: string
  readonly count: number
  readonly limit: number
  /** The rules that applied, each with its sign; empty unless several did. */
  readonly rules: string
  /** How many requests the row stands for; the time and the count are those of the last one. */
  readonly weight: number
}

const COLUMNS = `id, "timestamp" AS "timestampMs", key, ip_address, client_ip, user_id, path, method, rule_name, allowed,
  count, "limit", rules, weight, (${CLIENT}) AS client, (${POLICY}) AS policy, (${OUTCOME}) AS outcome`
export const NEWEST_FIRST = 'ORDER BY "timestamp" DESC, id DESC'
/** The number of keys of a network above which the events are read in the order of time. */
const MAX_NETWORK_LISTS = 50

/**
 * Lists the events that pass a filter.
 *
 * @param before the position of the last event of the page before
 * @throws InvalidSettingError for a client that the log cannot tell
 */
export function listEvents(
  filter: ListedFilter,
  before: EventPosition | undefined,
  limit: number,
): Report<ListedEvent[]> {
  return async (snapshot) => {
    const found = await findClient(snapshot, filter)
    const lists = listsFor(filter, found)
    if (lists === undefined) {
      const parameters = new Parameters()
      const conditions = conditionsFor(snapshot, filter, found, before, parameters)
      return selectEvents(snapshot, conditions, NEWEST_FIRST, parameters, limit)
    }
    const positions = await readPositions(
      snapshot,
      lists,
      (parameters) => conditionsFor(snapshot, filter, found, before, parameters),
      limit,
    )
    return readEventsOf(
      snapshot,
      positions.map(({ id }) => id),
    )
  }
}

/** Reads the events of some ids, the newest first. */
export function readEventsOf(snapshot: LogSnapshot, ids: readonly number[]): Promise<ListedEvent[]> {
  const parameters = new Parameters()
  const isOneOfThem = snapshot.dialect.isOneOf('id', parameters.add(JSON.stringify(ids)), 'bigint')
  return selectEvents(snapshot, [isOneOfThem], NEWEST_FIRST, parameters, ids.length)
}

/** Finds one event; undefined where the log does not have it, or no longer. */
export function eventById(id: number): Report<ListedEvent | undefined> {
  return async (snapshot) => {
    const parameters = new Parameters()
    const isIt = `id = ${snapshot.dialect.whole(parameters.add(id))}`
    const [event] = await selectEvents(snapshot, [isIt], NEWEST_FIRST, parameters, 1)
    return event
  }
}

async function findClient(
  snapshot: LogSnapshot,
  { client, sinceMs }: ListedFilter,
): Promise<LoggedClients | undefined> {
  if (client === undefined) return undefined
  const found = await loggedClients(client, sinceMs)(snapshot)
  if (found !== undefined) return found
  throw new InvalidSettingError(
    `Option "client" is ${JSON.stringify(client)}, for which the log cannot be searched: give ip:203.0.113.7 or user:7`,
  )
}

/** Values of an indexed column, each with a list of its own: an index has the events of each in order. */
interface Lists {
  readonly column: 'key' | 'allowed'
  readonly type: 'text' | 'boolean'
  readonly values: readonly (string | boolean)[]
}

function listsFor({ key, outcome, allowed }: ListedFilter, found: LoggedClients | undefined): Lists | undefined {
  if (key !== undefined) return undefined
  if (isLookedUp(found)) return { column: 'key', type: 'text', values: found.keys }
  // Refusals, and those who were let through: the index of both has the outcome.
  const isRare = outcome === 'over_limit' && allowed === undefined
  return isRare ? { column: 'allowed', type: 'boolean', values: [false, true] } : undefined
}

/** Returns whether the events of each key are looked up: a network may have more keys than a page has events. */
function isLookedUp(found: LoggedClients | undefined): found is LoggedClients & { readonly keys: readonly string[] } {
  return found?.keys !== undefined && (found.ranges === undefined || found.keys.length <= MAX_NETWORK_LISTS)
}

/** Returns the conditions of an event that matches the filter, and that follows a position. */
function conditionsFor(
  snapshot: LogSnapshot,
  { key, policy, outcome, allowed, path, method, sinceMs, untilMs }: ListedFilter,
  found: LoggedClients | undefined,
  before: EventPosition | undefined,
  parameters: Parameters,
): string[] {
  const { dialect } = snapshot
  const add = (value: SqlValue) => parameters.add(value)
  const moment = (ms: number) => dialect.fromMs(add(ms))
  const conditions = [`true${filtered(dialect, { path, method }, parameters)}`]
  if (key !== undefined) conditions.push(`key = ${add(toLogged(snapshot, key))}`)
  if (found !== undefined) {
    conditions.push(isOfClients(snapshot, found, parameters))
    if (found.keys !== undefined && !isLookedUp(found)) {
      conditions.push(dialect.isOneOf('key', add(JSON.stringify(found.keys)), 'text'))
    }
  }
  if (policy !== undefined) conditions.push(isOfPolicy(dialect, add(policy)))
  if (outcome !== undefined) conditions.push(`(${OUTCOME}) = ${add(outcome)}`)
  // A denied request is never let through: the condition is there for the index.
  const isRefused = outcome === 'denied' || outcome === 'unavailable'
  if (allowed !== undefined || isRefused) conditions.push(`allowed = ${allowed ?? false}`)
  if (sinceMs !== undefined) conditions.push(`"timestamp" >= ${moment(sinceMs)}`)
  if (untilMs !== undefined) conditions.push(`"timestamp" < ${moment(untilMs)}`)
  if (before !== undefined) {
    conditions.push(followsPosition(moment(before.timestampMs), dialect.whole(add(before.id))))
  }
  return conditions
}

/** Returns the condition that a policy decided, or that a rule of this name is one of several that applied. */
export function isOfPolicy(dialect: Dialect, policy: string): string {
  return `((${POLICY}) = ${policy} OR ${hasApplied(dialect, policy)})`
}

/** Returns the condition of an event that follows a position, the newest first: a range of the index of timestamps. */
export function followsPosition(timestamp: string, id: string): string {
  return `"timestamp" <= ${timestamp} AND ("timestamp" < ${timestamp} OR id < ${id})`
}

/** Reads events that pass some conditions. */
export function selectEvents(
  { query, dialect }: Pick<LogSnapshot, 'query' | 'dialect'>,
  conditions: readonly string[],
  order: string,
  parameters: Parameters,
  limit: number,
): Promise<ListedEvent[]> {
  return query<ListedEvent>(
    `SELECT ${COLUMNS} FROM ${dialect.table('rate_limit_event')}
     WHERE ${conditions.join(' AND ')} ${order} LIMIT ${parameters.add(limit)}`,
    parameters.values,
  )
}

/** Reads the first positions of several lists, in one statement that looks each of them up in the index. */
async function readPositions(
  { query, dialect }: LogSnapshot,
  { column, type, values }: Lists,
  conditionsWith: (parameters: Parameters) => readonly string[],
  limit: number,
): Promise<EventPosition[]> {
  const parameters = new Parameters()
  const lists = dialect.jsonRows(parameters.add(JSON.stringify(values.map((value) => [value]))))
  const conditions = [`${column} = ${dialect.jsonField(0, type)}`, ...conditionsWith(parameters)]
  const rows = await query<{ positions: string | null }>(
    `SELECT (
       SELECT ${dialect.rowsAsJson('at_ms, id')} FROM (
         SELECT id, ${dialect.toMs('"timestamp"')} AS at_ms FROM ${dialect.table('rate_limit_event')}
         WHERE ${conditions.join(' AND ')} ${NEWEST_FIRST} LIMIT ${parameters.add(limit)}
       ) AS latest
     ) AS positions FROM ${lists}`,
    parameters.values,
  )
  return rows
    .flatMap(({ positions }) => toPositions(positions))
    .toSorted((one, other) => other.timestampMs - one.timestampMs || other.id - one.id)
    .slice(0, limit)
}

function toPositions(text: string | null): EventPosition[] {
  const pairs: readonly (readonly [timestampMs: number, id: number])[] = text === null ? [] : JSON.parse(text)
  return pairs.map(([timestampMs, id]) => ({ timestampMs, id }))
}
