/** The latest events of the log, and those that are written from now on. */
import type { Database } from '../database/database.js'
import { listById, pages } from '../database/list.js'
import { SECOND_MS } from '../ground/time/clock.js'
import { parseAppliedRules } from '../log/applied-rules.js'
import { type ClientSearch, isFound } from './client-search.js'
import { eventList, type ListedEvent, selectEvents } from './listed-events.js'

type EventTable = Pick<Database, 'query' | 'dialect'>

/** The events to show. An undefined field excludes none. */
interface TailFilter {
  readonly search?: ClientSearch | undefined
  readonly policy?: string | undefined
  /** The beginning of the path. */
  readonly path?: string | undefined
  /** Whether only refused requests are shown. */
  readonly refused?: boolean | undefined
}

const PAGE_SIZE = 1_000
/** The most events that a search for the latest ones reads. */
const MAX_READ = 1_000_000
/** Transactions of PostgreSQL may end in another order than that of their ids: for so long a lower id is still read. */
const LATE_MS = 10 * SECOND_MS

/** Creates the test whether an event passes a filter. */
export function createEventTest({ search, policy, path, refused }: TailFilter): (event: ListedEvent) => boolean {
  return (event) =>
    (search === undefined || isFound(search, event)) &&
    (policy === undefined || isOfPolicy(event, policy)) &&
    (path === undefined || event.path.startsWith(path)) &&
    !(refused && event.allowed)
}

function isOfPolicy({ policy, rules }: ListedEvent, name: string): boolean {
  return policy === name || parseAppliedRules(rules).some((rule) => rule.name === name)
}

/** Returns the highest id of the log; 0 where it is empty. */
export async function readNewestId({ dialect, query }: EventTable): Promise<number> {
  const [newest] = await query<{ id: number | null }>(`SELECT MAX(id) AS id FROM ${dialect.table('rate_limit_event')}`)
  return newest?.id ?? 0
}

/**
 * Reads the latest events that pass a test, the oldest first. Their times decide, since a group of events is written by
 * key and not in the order of time.
 *
 * @param until the highest id, and the latest time in milliseconds: a wrong clock may have dated events far ahead
 */
export async function readLatestEvents(
  database: EventTable,
  until: { readonly id: number; readonly timestampMs: number },
  limit: number,
  isShown: (event: ListedEvent) => boolean,
): Promise<ListedEvent[]> {
  const { dialect } = database
  const list = eventList(database, (parameters) => [
    `id <= ${parameters.add(until.id)}`,
    `"timestamp" <= ${dialect.fromMs(parameters.add(until.timestampMs))}`,
  ])
  const found: ListedEvent[] = []
  let read = 0
  for await (const page of pages(dialect, list, PAGE_SIZE)) {
    found.push(...page.filter(isShown))
    read += page.length
    if (found.length >= limit || read >= MAX_READ) break
  }
  return found.slice(0, limit).reverse()
}

/** Reads every event once that is written from now on. */
export class NewEvents {
  readonly #database: EventTable
  /** The highest ids that were read, and when. */
  readonly #passed: { readonly id: number; readonly atMs: number }[] = []
  readonly #seen = new Set<number>()
  #floor: number

  /** @param newestId the highest id that is not new */
  constructor(database: EventTable, newestId: number) {
    this.#database = database
    this.#floor = newestId
  }

  /** Reads the events since the last call, in the order of their times. */
  async read(nowMs: number): Promise<ListedEvent[]> {
    const events: ListedEvent[] = []
    const { dialect, query } = this.#database
    const list = listById<ListedEvent>(query, selectEvents(dialect))
    const from = { side: 'after', position: [this.#floor] } as const
    for await (const page of pages(dialect, list, PAGE_SIZE, from)) {
      events.push(...page.filter(({ id }) => !this.#seen.has(id)))
    }
    for (const { id } of events) this.#seen.add(id)
    this.#passed.push({ id: events.at(-1)?.id ?? this.#floor, atMs: nowMs })
    while ((this.#passed[0]?.atMs ?? nowMs) <= nowMs - LATE_MS)
      this.#floor = Math.max(this.#floor, this.#passed.shift()?.id ?? 0)
    for (const id of this.#seen) if (id <= this.#floor) this.#seen.delete(id)
    return events.toSorted((one, other) => one.timestampMs - other.timestampMs || one.id - other.id)
  }
}
