/**
 * Searches the log for the events that pass a filter, page by page, in both directions. A page of people reads no more than
 * some thousands of events, whatever the filter is: it says how far it has searched, and the next one goes on from there.
 */
import type { Dialect, SqlValue } from '../database/dialect.js'
import { beyond, orderBy, type PageStart, type Parameters, readForEach } from '../database/list.js'
import type { EventOutcome } from '../log/event.js'
import { hasApplied, OUTCOME, POLICY } from '../log/event-sql.js'
import { filtered } from './filter.js'
import { EVENT_ORDER, type EventPosition, type ListedEvent, readEventsOf } from './listed-events.js'
import { isOfClients, type LoggedClients, loggedClients } from './logged-clients.js'
import { type LogSnapshot, type Report, toLogged } from './report.js'

/** The events of a search. An undefined field excludes none. */
export interface EventSearch {
  /** The key as the log has it. */
  readonly key?: string | undefined
  /** A client, a network or a key of the log, in any spelling, under all rules. */
  readonly client?: string | undefined
  /** The policy that decided, or a rule that applied beside others, by its whole name. */
  readonly policy?: string | undefined
  readonly outcome?: EventOutcome | undefined
  readonly allowed?: boolean | undefined
  /** The beginning of the path. */
  readonly path?: string | undefined
  readonly method?: string | undefined
  /** The moment from which on events are found, in milliseconds. */
  readonly sinceMs?: number | undefined
  /** The moment before which events are found, in milliseconds. */
  readonly untilMs?: number | undefined
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

/**
 * Searches for events.
 *
 * @param from the beginning, in `EVENT_ORDER`; the newest events unless given
 * @param isWhole whether the search goes on until the page is full
 * @returns undefined for a client that the log cannot tell
 */
export function searchEvents(
  search: EventSearch,
  from: PageStart | undefined,
  limit: number,
  isWhole = false,
): Report<FoundEvents | undefined> {
  return async (snapshot) => {
    const { client, sinceMs } = search
    const clients = client === undefined ? undefined : await loggedClients(client, sinceMs)(snapshot)
    if (client !== undefined && clients === undefined) return undefined
    const events: ListedEvent[] = []
    for (let start = from; ; ) {
      const scan = createScan(snapshot, search, clients, start, isWhole)
      const found = await readFound(scan, limit - events.length)
      events.push(...found.events)
      const { next } = found
      if (!isWhole || next === undefined || events.length === limit) return { ...found, events }
      start = { side: start?.side ?? 'after', position: next }
    }
  }
}

async function readFound(scan: Scan, limit: number): Promise<FoundEvents> {
  const { snapshot, clients, compare } = scan
  const { lists, bound } = await chooseLists(scan)
  const { positions, end } = await readLists(scan, lists, limit)
  // The nearest end: behind it some list was not read.
  const [reached] = [bound, ...end].flatMap((each) => (each === undefined ? [] : [each])).toSorted(compare)
  const found = positions
    .toSorted(compare)
    .filter((position) => reached === undefined || compare(position, reached) <= 0)
  const isFull = found.length > limit
  const shown = found.slice(0, limit)
  const ids = shown.map(([, id]) => id)
  return {
    events: (await readEventsOf(snapshot, ids)).filter(
      ({ client, key }) => clients === undefined || clients.isMeant(client) || key === clients.key,
    ),
    next: isFull ? shown.at(-1) : reached,
    isBounded: !isFull && reached !== undefined,
  }
}

/** What begins with the position of an event. */
type Placed = readonly [...EventPosition, ...unknown[]]

/** The way of a search through the log. */
type Scan = ReturnType<typeof createScan>

function createScan(
  snapshot: LogSnapshot,
  { key, policy, outcome, allowed, path, method, sinceMs, untilMs }: EventSearch,
  clients: LoggedClients | undefined,
  from: PageStart | undefined,
  isWhole: boolean,
) {
  const { dialect } = snapshot
  const isNewer = from?.side === 'before'
  const sign = isNewer ? -1 : 1
  return {
    snapshot,
    clients,
    isWhole,
    key: key === undefined ? undefined : toLogged(snapshot, key),
    order: orderBy(EVENT_ORDER, isNewer),
    /** The values of `allowed` that the events have, in the order of an index; undefined for any. */
    decided: decisionsOf(outcome, allowed),
    /** The first of two positions in the direction of the search is less. */
    compare: ([oneMs, one]: Placed, [otherMs, other]: Placed) => sign * (otherMs - oneMs || other - one),
    /** Returns a position behind which an event is the first one. */
    before: ([timestampMs, id]: Placed): EventPosition => [timestampMs, id + sign],
    /** Returns the condition that an event is in the period, behind the position where the page begins. */
    isWithin(parameters: Parameters): string {
      const moment = (ms: number) => dialect.fromMs(parameters.add(ms))
      const conditions: string[] = []
      // The statement has one bound at each end, since SQLite may use the farther one of two.
      const isBehind = from !== undefined && isInPeriod(Number(from.position[0]), isNewer, sinceMs, untilMs)
      if (sinceMs !== undefined && !(isNewer && isBehind)) conditions.push(`"timestamp" >= ${moment(sinceMs)}`)
      if (untilMs !== undefined && (isNewer || !isBehind)) conditions.push(`"timestamp" < ${moment(untilMs)}`)
      if (isBehind) conditions.push(beyond(dialect, EVENT_ORDER, from.position, isNewer, parameters))
      return conditions.length === 0 ? 'true' : conditions.join(' AND ')
    },
    /** Returns the conditions that no index helps with: begins with AND, or is empty. */
    isMeant(parameters: Parameters): string {
      const add = (value: SqlValue) => parameters.add(value)
      const conditions: string[] = []
      if (clients !== undefined) conditions.push(isOfClients(snapshot, clients, parameters))
      if (policy !== undefined) conditions.push(isOfPolicy(dialect, add(policy)))
      if (outcome !== undefined) conditions.push(`(${OUTCOME}) = ${add(outcome)}`)
      if (allowed !== undefined) conditions.push(`allowed = ${allowed}`)
      return (
        conditions.map((condition) => ` AND ${condition}`).join('') + filtered(dialect, { path, method }, parameters)
      )
    },
  }
}

function decisionsOf(outcome: EventOutcome | undefined, allowed: boolean | undefined): readonly boolean[] | undefined {
  if (allowed !== undefined) return [allowed]
  // A denied request is never let through; one that is over a limit may be.
  if (outcome === 'denied' || outcome === 'unavailable') return [false]
  return outcome === 'over_limit' ? [false, true] : undefined
}

/** Returns whether the position of a page is within the period of the search: anybody can make one up. */
function isInPeriod(
  timestampMs: number,
  isNewer: boolean,
  sinceMs: number | undefined,
  untilMs: number | undefined,
): boolean {
  return isNewer ? sinceMs === undefined || timestampMs >= sinceMs : untilMs === undefined || timestampMs < untilMs
}

/** Returns the condition that a policy decided, or that a rule of this name is one of several that applied. */
function isOfPolicy(dialect: Dialect, policy: string): string {
  return `((${POLICY}) = ${policy} OR ${hasApplied(dialect, policy)})`
}

/** Events that an index has in the order of time: those with one value of a column, or all. */
interface Lists {
  readonly column: 'key' | 'allowed' | undefined
  readonly values: readonly (string | boolean)[]
  /** The most events of each list that are read. */
  readonly most: number
}

/** Chooses the lists in which a search reads, and where it has to end because there are more. */
async function chooseLists(scan: Scan): Promise<{ readonly lists: Lists; readonly bound?: EventPosition | undefined }> {
  const { key, clients, decided } = scan
  if (key !== undefined) return { lists: { column: 'key', values: [key], most: MOST_SCATTERED } }
  if (clients?.keys !== undefined) {
    const firsts = (await readFirsts(scan, clients.keys)).toSorted(scan.compare)
    const values = firsts.slice(0, MAX_KEYS).map(([, , key]) => key)
    const most = Math.max(2 * MAX_KEYS, Math.floor(MOST_SCATTERED / Math.max(1, values.length)))
    const next = firsts[MAX_KEYS]
    return { lists: { column: 'key', values, most }, bound: next && scan.before(next) }
  }
  if (decided === undefined) return { lists: { column: undefined, values: [''], most: MOST_READ } }
  return { lists: { column: 'allowed', values: decided, most: decided.includes(false) ? MOST_SCATTERED : MOST_READ } }
}

/** Reads the first event of each key, in the direction of the search: the index has it. */
function readFirsts(
  { snapshot, order, isWithin }: Scan,
  keys: readonly string[],
): Promise<(readonly [...EventPosition, key: string])[]> {
  const { dialect } = snapshot
  return readForEach(
    snapshot,
    keys.map((key) => [key]),
    'at_ms, id, key',
    (parameters) =>
      `SELECT key, id, ${dialect.toMs('"timestamp"')} AS at_ms FROM ${dialect.table('rate_limit_event')}
       WHERE key = ${dialect.jsonField(0, 'text')} AND ${isWithin(parameters)} ${order} LIMIT 1`,
  )
}

/** Reads the first matching positions of each list, and the last position of those lists that were not read to their end. */
async function readLists(
  { snapshot, order, isWithin, isMeant, isWhole }: Scan,
  { column, values, most }: Lists,
  limit: number,
): Promise<{ readonly positions: EventPosition[]; readonly end: readonly EventPosition[] }> {
  const { dialect } = snapshot
  const events = `FROM ${dialect.table('rate_limit_event')} WHERE `
  const field = dialect.jsonField(0, column === 'allowed' ? 'boolean' : 'text')
  const isListed = column === undefined ? '' : `${column} = ${field} AND `
  const read = (select: (section: string, parameters: Parameters) => string) =>
    readForEach<EventPosition>(
      snapshot,
      values.map((value) => [value]),
      'at_ms, id',
      (parameters) =>
        `SELECT id, ${dialect.toMs('"timestamp"')} AS at_ms ${select(events + isListed + isWithin(parameters), parameters)}`,
    )
  const positions = await read((section, parameters) => {
    const read = isWhole ? section : `FROM (SELECT * ${section} ${order} LIMIT ${most}) AS section WHERE true`
    return `${read}${isMeant(parameters)} ${order} LIMIT ${limit + 1}`
  })
  if (isWhole || positions.length > values.length * limit) return { positions, end: [] }
  return { positions, end: await read((section) => `${section} ${order} LIMIT 1 OFFSET ${most - 1}`) }
}
