/**
 * Searches the log for the events that pass a filter, page by page, in both directions. No filter makes it read more than
 * some thousands of events: a page says how far it has searched, and the next one goes on from there.
 */
import type { SqlValue } from '../database/dialect.js'
import { OUTCOME } from '../log/event-sql.js'
import { filtered, Parameters } from './filter.js'
import { type EventPosition, followsPosition, isOfPolicy, type ListedEvent, readEventsOf } from './listed-events.js'
import { isOfClients, type LoggedClients, loggedClients } from './logged-clients.js'
import type { LogSnapshot, Report } from './report.js'

/**
 * The outcomes of requests, as people search for them: `refused` is all that was not let through; `would_be` was let
 * through over a limit that does not block.
 */
export const SEARCHED_OUTCOMES = ['refused', 'over_limit', 'denied', 'unavailable', 'would_be', 'allowed'] as const
export type SearchedOutcome = (typeof SEARCHED_OUTCOMES)[number]

/** The events of a search. An undefined field excludes none. */
export interface EventSearch {
  /** A client, a network or a key of the log, in any spelling. */
  readonly client?: string | undefined
  /** The policy that decided, or a rule that applied beside others, by its whole name. */
  readonly rule?: string | undefined
  /** The beginning of the path. */
  readonly path?: string | undefined
  readonly method?: string | undefined
  readonly outcome?: SearchedOutcome | undefined
  /** The moment from which on events are found, in milliseconds. */
  readonly sinceMs?: number | undefined
  /** The moment before which events are found, in milliseconds. */
  readonly untilMs?: number | undefined
}

/** The place in the log from which a page is read, and in which direction. */
export interface SearchFrom {
  readonly position: EventPosition
  readonly direction: 'older' | 'newer'
}

export interface FoundEvents {
  /** The newest first. */
  readonly events: readonly ListedEvent[]
  /** The position behind which the next page in the direction of the search begins; undefined where there is none. */
  readonly next: EventPosition | undefined
  /** Whether the search ended because it had read enough, and not because the page was full. */
  readonly isBounded: boolean
}

/** The most events that a search reads in the order of time: they lie side by side. */
const MOST_READ = 20_000
/** The most events that are read for some clients, and for refusals, which are scattered over the log. */
const MOST_SCATTERED = 5_000
/** The keys whose events are read: those with the newest event. */
const MAX_KEYS = 60

const IS_LET_THROUGH: Readonly<Record<SearchedOutcome, boolean>> = {
  refused: false,
  over_limit: false,
  denied: false,
  unavailable: false,
  would_be: true,
  allowed: true,
}

/**
 * Searches for events.
 *
 * @param from where to begin; the newest events unless given
 * @returns undefined for a client that the log cannot tell
 */
export function searchEvents(
  search: EventSearch,
  from: SearchFrom | undefined,
  limit: number,
): Report<FoundEvents | undefined> {
  return async (snapshot) => {
    const { client, sinceMs } = search
    const clients = client === undefined ? undefined : await loggedClients(client, sinceMs)(snapshot)
    if (client !== undefined && clients === undefined) return undefined
    const scan = createScan(snapshot, search, clients, from)
    const { lists, bound } = await chooseLists(scan, clients)
    const { positions, end } = await readLists(scan, lists, limit)
    const limits = [bound, ...end].flatMap((each) => each ?? [])
    // The nearest end: behind it some list was not read.
    const [reached] = limits.toSorted((one, other) => scan.compare(one, other))
    const found = positions
      .toSorted(scan.compare)
      .filter((position) => reached === undefined || scan.compare(position, reached) <= 0)
    const isFull = found.length > limit
    const shown = found.slice(0, limit)
    const events = await readEventsOf(
      snapshot,
      shown.map(({ id }) => id),
    )
    return {
      events: events.filter((event) => clients === undefined || clients.isMeant(event.client) || event.key === client),
      next: isFull ? shown.at(-1) : reached,
      isBounded: !isFull && reached !== undefined,
    }
  }
}

/** The way of a search through the log. */
interface Scan {
  readonly snapshot: LogSnapshot
  readonly order: string
  /** The first of two positions in the direction of the search is less. */
  compare(one: EventPosition, other: EventPosition): number
  /** Returns a position behind which an event is the first one. */
  before(position: EventPosition): EventPosition
  /** Returns the condition that an event is in the period, behind the position where the page begins. */
  isWithin(parameters: Parameters): string
  /** Returns the conditions that no index helps with: begins with AND, or is empty. */
  isMeant(parameters: Parameters): string
  /** The value of `allowed` that all events have; undefined where they have both. */
  readonly allowed: boolean | undefined
}

function createScan(
  snapshot: LogSnapshot,
  search: EventSearch,
  clients: LoggedClients | undefined,
  from: SearchFrom | undefined,
): Scan {
  const { dialect } = snapshot
  const { rule, path, method, outcome } = search
  const isNewer = from?.direction === 'newer'
  const sign = isNewer ? -1 : 1
  const { sinceMs, untilMs } = search
  const allowed = outcome === undefined ? undefined : IS_LET_THROUGH[outcome]
  const named = outcome === 'would_be' ? 'over_limit' : outcome === 'refused' ? undefined : outcome
  return {
    snapshot,
    allowed,
    order: isNewer ? 'ORDER BY "timestamp", id' : 'ORDER BY "timestamp" DESC, id DESC',
    compare: (one, other) => sign * (other.timestampMs - one.timestampMs || other.id - one.id),
    before: ({ timestampMs, id }) => ({ timestampMs, id: id + sign }),
    isWithin(parameters) {
      const moment = (ms: number) => dialect.fromMs(parameters.add(ms))
      const conditions: string[] = []
      // The statement has one bound at each end, since SQLite may use the farther one of two.
      const isBehind = from === undefined ? undefined : behind(from, sinceMs, untilMs)
      if (sinceMs !== undefined && !(isNewer && isBehind)) conditions.push(`"timestamp" >= ${moment(sinceMs)}`)
      if (untilMs !== undefined && (isNewer || !isBehind)) conditions.push(`"timestamp" < ${moment(untilMs)}`)
      if (from !== undefined && isBehind) {
        const { timestampMs, id } = from.position
        const last = dialect.whole(parameters.add(id))
        conditions.push(
          isNewer ? precedesPosition(moment(timestampMs), last) : followsPosition(moment(timestampMs), last),
        )
      }
      return conditions.length === 0 ? 'true' : conditions.join(' AND ')
    },
    isMeant(parameters) {
      const add = (value: SqlValue) => parameters.add(value)
      const conditions: string[] = []
      if (clients !== undefined) conditions.push(isOfClients(snapshot, clients, parameters))
      if (rule !== undefined) conditions.push(isOfPolicy(dialect, add(rule)))
      if (named !== undefined) conditions.push(`(${OUTCOME}) = ${add(named)}`)
      const further = filtered(dialect, { path, method }, parameters)
      return conditions.map((condition) => ` AND ${condition}`).join('') + further
    },
  }
}

/** Returns whether the position of a page is within the period of the search: anybody can make one up. */
function behind(
  { position, direction }: SearchFrom,
  sinceMs: number | undefined,
  untilMs: number | undefined,
): boolean {
  const { timestampMs } = position
  return direction === 'newer'
    ? sinceMs === undefined || timestampMs >= sinceMs
    : untilMs === undefined || timestampMs < untilMs
}

/** Returns the condition of an event that is newer than a position. */
function precedesPosition(timestamp: string, id: string): string {
  return `"timestamp" >= ${timestamp} AND ("timestamp" > ${timestamp} OR id > ${id})`
}

/** Events that an index has in the order of time: those with one value of a column, or all. */
interface Lists {
  readonly column: 'key' | 'allowed' | undefined
  readonly values: readonly (string | boolean)[]
  /** The most events of each list that are read. */
  readonly most: number
}

/** Chooses the lists in which a search reads, and where it has to end because there are more. */
async function chooseLists(
  scan: Scan,
  clients: LoggedClients | undefined,
): Promise<{ readonly lists: Lists; readonly bound: EventPosition | undefined }> {
  if (clients?.keys !== undefined) {
    const keys = (await readFirsts(scan, clients.keys)).toSorted((one, other) => scan.compare(one, other))
    const kept = keys.slice(0, MAX_KEYS)
    const most = Math.max(2 * MAX_KEYS, Math.floor(MOST_SCATTERED / Math.max(1, kept.length)))
    const next = keys[MAX_KEYS]
    return { lists: { column: 'key', values: kept.map(({ key }) => key), most }, bound: next && scan.before(next) }
  }
  const { allowed } = scan
  const lists: Lists =
    allowed === undefined
      ? { column: undefined, values: [''], most: MOST_READ }
      : { column: 'allowed', values: [allowed], most: allowed ? MOST_READ : MOST_SCATTERED }
  return { lists, bound: undefined }
}

/** Reads the first event of each key, in the direction of the search: the index has it. */
async function readFirsts(
  { snapshot: { query, dialect }, order, isWithin }: Scan,
  keys: readonly string[],
): Promise<(EventPosition & { readonly key: string })[]> {
  const parameters = new Parameters()
  const listed = dialect.jsonRows(parameters.add(JSON.stringify(keys.map((key) => [key]))))
  const key = dialect.jsonField(0, 'text')
  const rows = await query<{ key: string; first: string | null }>(
    `SELECT ${key} AS key, (
       SELECT ${dialect.rowsAsJson('at_ms, id')} FROM (
         SELECT id, ${dialect.toMs('"timestamp"')} AS at_ms FROM ${dialect.table('rate_limit_event')}
         WHERE key = ${key} AND ${isWithin(parameters)} ${order} LIMIT 1
       ) AS first
     ) AS first FROM ${listed}`,
    parameters.values,
  )
  return rows.flatMap(({ key, first }) => toPositions(first).map((position) => ({ key, ...position })))
}

/** Reads the first matching positions of each list, and the last position of those lists that were not read to their end. */
async function readLists(
  { snapshot: { query, dialect }, order, isWithin, isMeant, allowed }: Scan,
  { column, values, most }: Lists,
  limit: number,
): Promise<{ readonly positions: EventPosition[]; readonly end: readonly EventPosition[] }> {
  if (values.length === 0) return { positions: [], end: [] }
  const table = dialect.table('rate_limit_event')
  const field = dialect.jsonField(0, column === 'allowed' ? 'boolean' : 'text')
  const isListed = column === undefined ? '' : `${column} = ${field} AND `
  const parameters = new Parameters()
  const listed = dialect.jsonRows(parameters.add(JSON.stringify(values.map((value) => [value]))))
  const decided = column === 'allowed' || allowed === undefined ? '' : ` AND allowed = ${allowed}`
  const section = `FROM ${table} WHERE ${isListed}${isWithin(parameters)} ${order}`
  const rows = await query<{ positions: string | null }>(
    `SELECT (
       SELECT ${dialect.rowsAsJson('at_ms, id')} FROM (
         SELECT id, ${dialect.toMs('"timestamp"')} AS at_ms FROM (SELECT * ${section} LIMIT ${most}) AS section
         WHERE true${decided}${isMeant(parameters)} ${order} LIMIT ${limit + 1}
       ) AS found
     ) AS positions FROM ${listed}`,
    parameters.values,
  )
  const found = rows.map(({ positions }) => toPositions(positions))
  if (found.every((each) => each.length > limit)) return { positions: found.flat(), end: [] }
  const bounds = new Parameters()
  const again = dialect.jsonRows(bounds.add(JSON.stringify(values.map((value) => [value]))))
  const ends = await query<{ last: string | null }>(
    `SELECT (
       SELECT ${dialect.rowsAsJson('at_ms, id')} FROM (
         SELECT id, ${dialect.toMs('"timestamp"')} AS at_ms FROM ${table} WHERE ${isListed}${isWithin(bounds)} ${order}
         LIMIT 1 OFFSET ${most - 1}
       ) AS last
     ) AS last FROM ${again}`,
    bounds.values,
  )
  return { positions: found.flat(), end: ends.flatMap(({ last }) => toPositions(last)) }
}

function toPositions(text: string | null): EventPosition[] {
  const pairs: readonly (readonly [timestampMs: number, id: number])[] = text === null ? [] : JSON.parse(text)
  return pairs.map(([timestampMs, id]) => ({ timestampMs, id }))
}
