import { latestStartMs, SECOND_MS } from '../../src/ground/time/clock.js'
import { isSum } from '../../src/log/event-sql.js'
import type { Settings } from '../../src/plugin/settings/resolve.js'
import { type ClientSearch, parseClientSearch } from '../../src/reports/client-search.js'
import type { ListedEvent } from '../../src/reports/listed-events.js'
import { createEventTest, NewEvents, readLatestEvents, readNewestId } from '../../src/reports/tail.js'
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

const PAUSE_MS = SECOND_MS

export async function run(options: TailOptions, context: CommandContext): Promise<CommandResult> {
  const { lines, json, client, policy, path, refused } = options
  const print = (event: ListedEvent) =>
    printLine(json ? JSON.stringify(eventJson(event)) : eventLine(event), context.stdout)
  const settings = commandSettings(options, context)
  const isShown = createEventTest({ search: parseClient(client, settings), policy, path, refused })
  await withDatabaseToRead(settings, context, async ({ database: { log: database } }) => {
    const newestId = await readNewestId(database)
    const until = { id: newestId, timestampMs: latestStartMs(settings.clock.now()) }
    for (const event of await readLatestEvents(database, until, lines, isShown)) print(event)
    if (!options.follow) return
    const news = new NewEvents(database, newestId)
    await follow(context.signal, PAUSE_MS, async () => {
      for (const event of await news.read(performance.now())) if (isShown(event)) print(event)
    })
  })
  return { lines: [] }
}

/** @throws UsageError for an empty client, and for a network where the log has pseudonyms */
function parseClient(client: string | undefined, { privacy }: Settings): ClientSearch | undefined {
  if (client === undefined) return undefined
  const search = parseClientSearch(client.trim(), privacy)
  if (search !== undefined) return search
  throw new UsageError(
    client.trim() === ''
      ? '--client is empty: give an address, a network or user:<id>'
      : `--client is ${JSON.stringify(client)}, and the log has pseudonyms, of no network: give an address`,
  )
}

function eventJson({ timestampMs, client, key, policy, outcome, rules, method, path, ...event }: ListedEvent) {
  return {
    timestamp: new Date(timestampMs).toISOString(),
    client,
    key,
    policy,
    outcome,
    rules,
    method,
    path,
    allowed: Boolean(event.allowed),
    count: event.count,
    limit: event.limit,
    weight: event.weight,
  }
}

const OUTCOMES: Readonly<Record<string, string>> = { unavailable: 'no store answered' }

/** Returns a line with columns that stay below each other where clients and policies are as short as usual. */
function eventLine({ timestampMs, client, key, policy, outcome, allowed, method, path, ...event }: ListedEvent) {
  const overLimit = allowed ? 'would be refused' : 'refused'
  const shown = outcome === 'over_limit' ? overLimit : (OUTCOMES[outcome] ?? outcome)
  return [
    new Date(timestampMs).toISOString(),
    shown.padEnd('no store answered'.length),
    (isSum({ key }) ? '(only added up)' : client || key).padEnd(18),
    policy.padEnd(12),
    `${method} ${path}`,
    ...(isSum({ key }) ? [] : [`${event.count}/${event.limit}`]),
    ...(event.weight === 1 ? [] : [`x${event.weight}`]),
  ].join('  ')
}
