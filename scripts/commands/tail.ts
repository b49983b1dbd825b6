import type { Database } from '../../src/database/database.js'
import { latestStartMs, SECOND_MS } from '../../src/ground/time/clock.js'
import { CLIENT, OUTCOME, POLICY } from '../../src/log/event-sql.js'
import type { Settings } from '../../src/plugin/settings/resolve.js'
import { isFound, parseClientSearch } from '../../src/reports/client-search.js'
import { followsPosition, NEWEST_FIRST } from '../../src/reports/listed-events.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { follow } from './support/progress.js'
import { printLine } from './support/terminal.js'

interface TailOptions extends DatabaseOptions {
  readonly lines: number
  readonly follow?: true | undefined
  readonly client?: string | undefined
  readonly policy?: string | undefined
  readonly path?: string | undefined
  readonly refused?: true | undefined
  readonly json?: true | undefined
}

type Test = (event: ShownEvent) => boolean

const PAGE = 1_000
/** How many of the latest events are looked at for the first lines. */
const LOOKED_AT = 1_000_000
const PAUSE_MS = SECOND_MS
/** Transactions of PostgreSQL may end in another order than that of their ids: for so long a lower id is still read. */
const LATE_MS = 10 * SECOND_MS

export async function run(options: TailOptions, context: CommandContext): Promise<CommandResult> {
  const { lines, json } = options
  const print = (event: ShownEvent) =>
    printLine(json ? JSON.stringify(eventJson(event)) : eventLine(event), context.stdout)
  const settings = commandSettings(options, context)
  const isShown = createTest(options, settings)
  await withDatabaseToRead(settings, async ({ database }) => {
    const newestId = await readNewestId(database)
    const latestMs = latestStartMs(settings.clock.now())
    for (const event of await readLatest({ database, latestMs }, newestId, lines, isShown)) print(event)
    if (!options.follow) return
    const news = new NewEvents(database, newestId)
    const { signal } = context
    await follow(signal, PAUSE_MS, async () => {
      for (const event of sortByTime(await news.read(performance.now()))) if (isShown(event)) print(event)
    })
  })
  return { lines: [] }
}

/** @throws UsageError for an empty client, and for a network where the log has pseudonyms */
function createTest({ client, policy, path, refused }: TailOptions, { privacy }: Settings): Test {
  const tests: Test[] = []
  if (client !== undefined) {
    const search = parseClientSearch(client.trim(), privacy)
    if (search === undefined) {
      throw new UsageError(
        client.trim() === ''
          ? '--client is empty: give an address, a network or user:<id>'
          : `--client is ${JSON.stringify(client)}, and the log has pseudonyms, of no network: give an address`,
      )
    }
    tests.push((event) => isFound(search, event))
  }
  if (policy !== undefined) tests.push((event) => event.policy === policy)
  if (path !== undefined) tests.push((event) => event.path.startsWith(path))
  if (refused) tests.push(({ allowed }) => !allowed)
  return (event) => tests.every((test) => test(event))
}

/**
 * Reads the latest events that pass a test, the oldest first; not those that a wrong clock has dated far ahead. Their ids do not tell: a group of events is written by
 * key.
 */
async function readLatest(
  { database, latestMs }: { readonly database: Database; readonly latestMs: number },
  newestId: number,
  most: number,
  isShown: Test,
): Promise<ShownEvent[]> {
  const found: ShownEvent[] = []
  const { fromMs, whole } = database.dialect
  const follows = `AND ${followsPosition(fromMs('$4'), whole('$5'))}`
  let before: readonly number[] = []
  for (let lookedAt = 0; found.length < most && lookedAt < LOOKED_AT; lookedAt += PAGE) {
    const page = await selectEvents(
      database,
      `id <= $1 AND "timestamp" <= ${fromMs('$3')} ${before.length > 0 ? follows : ''} ${NEWEST_FIRST} LIMIT $2`,
      [newestId, PAGE, latestMs, ...before],
    )
    found.push(...page.filter(isShown))
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) break
    before = [last.timestampMs, last.id]
  }
  return found.slice(0, most).reverse()
}

function sortByTime(events: readonly ShownEvent[]): ShownEvent[] {
  return events.toSorted((a, b) => a.timestampMs - b.timestampMs || a.id - b.id)
}

/** Reads every event once that is written from now on. */
class NewEvents {
  readonly #database: Database
  /** The highest ids that were seen, and when. */
  readonly #passed: { readonly id: number; readonly atMs: number }[]
  readonly #seen = new Set<number>()
  #floor: number

  constructor(database: Database, newestId: number) {
    this.#database = database
    this.#floor = newestId
    this.#passed = []
  }

  async read(nowMs: number): Promise<ShownEvent[]> {
    const events: ShownEvent[] = []
    for (let afterId = this.#floor; ; ) {
      const page = await selectEvents(this.#database, 'id > $1 ORDER BY id LIMIT $2', [afterId, PAGE])
      events.push(...page.filter(({ id }) => !this.#seen.has(id)))
      if (page.length < PAGE) break
      afterId = page.at(-1)?.id ?? afterId
    }
    for (const { id } of events) this.#seen.add(id)
    this.#passed.push({ id: events.at(-1)?.id ?? this.#floor, atMs: nowMs })
    while ((this.#passed[0]?.atMs ?? nowMs) <= nowMs - LATE_MS)
      this.#floor = Math.max(this.#floor, this.#passed.shift()?.id ?? 0)
    for (const id of this.#seen) if (id <= this.#floor) this.#seen.delete(id)
    return events
  }
}

/** An event as commands show it. */
export interface ShownEvent {
  readonly id: number
  readonly timestampMs: number
  readonly client: string
  readonly key: string
  readonly policy: string
  readonly outcome: string
  readonly method: string
  readonly path: string
  readonly allowed: boolean | number
  readonly count: number
  readonly limit: number
}

async function readNewestId({ dialect, query }: Database): Promise<number> {
  const [newest] = await query<{ id: number | null }>(`SELECT MAX(id) AS id FROM ${dialect.table('rate_limit_event')}`)
  return newest?.id ?? 0
}

function selectEvents({ dialect, query }: Database, rest: string, parameters: number[]): Promise<ShownEvent[]> {
  return query<ShownEvent>(
    `SELECT id, "timestamp" AS "timestampMs", (${CLIENT}) AS client, key, (${POLICY}) AS policy,
       (${OUTCOME}) AS outcome, method, path, allowed, count, "limit"
     FROM ${dialect.table('rate_limit_event')} WHERE ${rest}`,
    parameters,
  )
}

export function eventJson({ timestampMs, client, key, policy, outcome, method, path, ...event }: ShownEvent) {
  return {
    timestamp: new Date(timestampMs).toISOString(),
    client,
    key,
    policy,
    outcome,
    method,
    path,
    allowed: Boolean(event.allowed),
    count: event.count,
    limit: event.limit,
  }
}

/** Returns a line with columns that stay below each other where clients and policies are as short as usual. */
export function eventLine({
  timestampMs,
  client,
  key,
  policy,
  outcome,
  allowed,
  method,
  path,
  count,
  limit,
}: ShownEvent) {
  const shown = outcome === 'over_limit' && allowed ? 'would_be' : outcome
  return [
    new Date(timestampMs).toISOString(),
    shown.padEnd('unavailable'.length),
    (client || key).padEnd(18),
    policy.padEnd(12),
    `${method} ${path}`,
    `${count}/${limit}`,
  ].join('  ')
}
