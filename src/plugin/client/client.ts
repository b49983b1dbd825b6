import { allDatabases, attachDatabase, Database, databaseFor } from '../../database/database.js'
import { DEFAULT_DATABASE_URL } from '../../database/database-url.js'
import { partitionEvents } from '../../database/partitions.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { loadModule, modulePath } from '../../ground/package-root.js'
import { validateSettings } from '../../ground/setting.js'
import { type Clock, systemClock } from '../../ground/time/clock.js'
import { COUNTING_SETTINGS } from '../../limiter/core/counting-settings.js'
import { SQLITE_FUNCTIONS } from '../../limiter/stores/sql/sqlite-functions.js'
import type { RetentionOptions } from '../../log/rollups/retention.js'
import { withCheckedWrites } from './client-extension.js'
import { asNumbers, windowsAsText } from './result-fields.js'

/** The event log, where it has a database of its own. */
export interface EventsOptions {
  /**
   * `file:./ratelimit-events.db` or `postgresql://…`: the database of the events, their sums, and usage. It is the one of
   * rules and counters unless given.
   */
  readonly database?: string | undefined
}

export interface ClientOptions {
  /** `file:./ratelimit.db` (SQLite, created and migrated automatically) or `postgresql://…`. */
  readonly database?: string | undefined
  /** `{ database: … }`: the database of the event log and of usage, which `rateLimitEvent` then reaches. */
  readonly events?: EventsOptions | undefined
  /** The PostgreSQL schema that holds the tables; `fastify_smart_ratelimit` unless given. */
  readonly schema?: string | undefined
  readonly clock?: Clock | undefined
  /** Whether a server may log events and read reports of a SQLite file on threads of their own; true unless given. */
  readonly threads?: boolean | undefined
}

/**
 * Creates a Prisma client for this package's tables: it validates rules before they are written, ids and counts are
 * numbers on both databases, and `rateLimitEvent.cleanupOld()` prunes the log. Where the log has a database of its own, a
 * `$transaction` refuses queries of `rateLimitEvent`.
 *
 * The first query opens the database. `$disconnect()` closes it.
 */
export function createRateLimitClient({ clock = systemClock, ...options }: ClientOptions = {}) {
  const database = databaseOf(options)
  return createLazyClient(database, () => {
    const { createGeneratedClient } = loadModule(
      modulePath('src/database/prisma/generated-client'),
    ) as typeof import('../../database/prisma/generated-client.js')
    return extendClient(({ url, schema }) => createGeneratedClient(url, schema), database, clock)
  })
}

function databaseOf({ database: url = DEFAULT_DATABASE_URL, schema, events, threads }: Omit<ClientOptions, 'clock'>) {
  validateSettings({ schema: COUNTING_SETTINGS.schema }, { schema }, (name) => name)
  const parts = { functions: SQLITE_FUNCTIONS, mayUseThreads: threads }
  const { database: logUrl = url } = events ?? {}
  const log = logUrl === url ? undefined : new Database(logUrl, schema, { ...parts, setting: 'events.database' })
  return new Database(url, schema, { ...parts, log })
}

/** Creates a client that is made by its first use: many servers never use it, and loading Prisma takes long. */
function createLazyClient<T extends { $disconnect(): Promise<void> }>(database: Database, create: () => T): T {
  let client: T | undefined
  const lazyClient = new Proxy({} as T, {
    get(_target, property) {
      // The method may be called when the client is in use.
      if (client === undefined && property === '$disconnect') {
        return () => (client === undefined ? database.close() : client.$disconnect())
      }
      client ??= create()
      return Reflect.get(client, property)
    },
    has(_target, property) {
      client ??= create()
      return Reflect.has(client, property)
    },
  })
  attachDatabase(lazyClient, database)
  return lazyClient
}

/** What `migrate` works on. */
export interface MigrateOptions extends Pick<ClientOptions, 'database' | 'events' | 'schema'> {
  /** Whether the event log becomes a partitioned table, on PostgreSQL; false by default, and nothing undoes it. */
  readonly partitioned?: boolean | undefined
}

/**
 * Brings a database to the current schema, and then that of the log, where it is another one: both have all tables. It can be
 * repeated, and several processes can run it at once.
 *
 * @returns the names of the migrations that it applied, of a migration of both databases twice
 */
export async function migrate({ partitioned, ...options }: MigrateOptions = {}): Promise<string[]> {
  const database = databaseOf(options)
  try {
    const applied: string[] = []
    for (const each of allDatabases(database)) applied.push(...(await each.migrate()))
    if (partitioned) await partitionEvents(database.log)
    return applied
  } finally {
    await database.close()
  }
}

/** The Prisma client that `createRateLimitClient` makes. */
export type RateLimitClient = ReturnType<typeof createRateLimitClient>

interface DatabaseSettings extends Pick<ClientOptions, 'events' | 'schema'> {
  readonly database?: string | object | undefined
  readonly clock: Clock
}

/**
 * Opens the databases of settings, or takes those of a client, and returns them with a client.
 *
 * @throws InvalidSettingError where the client has the log elsewhere than the settings say
 */
export function openDatabase({ database: option, ...settings }: DatabaseSettings): OpenDatabase {
  if (typeof option === 'object') {
    const database = databaseFor(option)
    const { database: logUrl = database.log.url } = settings.events ?? {}
    if (logUrl === database.log.url) {
      return { database, client: option as RateLimitClient, close: async () => undefined }
    }
    throw new InvalidSettingError(
      'Setting "events.database" (RATELIMIT_EVENTS_DATABASE_URL) is another database than the client in "database" has: give the same "events" to createRateLimitClient',
    )
  }
  const client = createRateLimitClient({ database: option, ...settings })
  return { database: databaseFor(client), client, close: () => client.$disconnect() }
}

export interface OpenDatabase {
  /** The database of rules and counters, which has that of the log. */
  readonly database: Database
  readonly client: RateLimitClient
  /** Closes a database that was opened here; a client that was passed in stays open. */
  close(): Promise<void>
}

function extendClient(create: (database: Database) => GeneratedClient, database: Database, clock: Clock) {
  let ruleWrites = 0
  async function ruleWritten(isCommitted: boolean): Promise<void> {
    ruleWrites++
    if (isCommitted) await database.rulesChanged()
  }
  const underWay = new Set<Promise<unknown>>()
  const allGenerated: GeneratedClient[] = []

  function extend(opened: Database) {
    const generated = create(opened)
    allGenerated.push(generated)
    opened.replacedListeners.add(() => generated.$disconnect())
    function whenReady<T>(query: () => Promise<T>): Promise<T> {
      return opened.explained(async () => {
        await opened.ready()
        return query()
      })
    }
    const writes = {
      changed: ruleWritten,
      underWay,
      whenReady,
      database: opened,
      main: database,
      now: () => clock.now(),
    }
    return withCheckedWrites(generated, writes).$extends({
      name: 'fastify-smart-ratelimit',
      result: {
        rateLimitEvent: {
          ...asNumbers('id', 'count'),
          userId: { needs: { userId: true }, compute: ({ userId }) => (userId === null ? null : Number(userId)) },
        },
        rateLimitRule: asNumbers('id'),
        rateLimitOverride: asNumbers('id'),
        rateLimitChange: asNumbers('id', 'rowId'),
        rateLimitRevision: asNumbers('revision'),
        rateLimitCounter: { ...asNumbers('count'), ...windowsAsText },
        rateLimitSlidingWindow: { ...asNumbers('used', 'cost'), ...windowsAsText },
        rateLimitTokenBucket: { ...asNumbers('used', 'cost'), ...windowsAsText },
        rateLimitLeakyBucket: { ...asNumbers('used', 'cost'), ...windowsAsText },
        rateLimitConcurrency: asNumbers('periodMs', 'used', 'granted', 'firstMs', 'lastMs'),
      },
      model: {
        rateLimitEvent: {
          /** Deletes events older than `olderThanDays` (30), `batchSize` (1000) at a time, and returns their number. */
          cleanupOld: async (options?: RetentionOptions) =>
            (await import('../../log/rollups/retention.js')).cleanupOldEvents(database, clock, options),
        },
      },
      client: {
        async $connect() {
          // The package's own connection creates and migrates the file, even when Prisma's is opened first.
          await opened.ready()
          await generated.$connect()
        },
        async $disconnect() {
          await Promise.allSettled(underWay)
          await Promise.all([...allGenerated.map((each) => each.$disconnect()), database.close()])
        },
      },
    })
  }

  // The writes of an interactive transaction are in force after its commit.
  async function refreshed(run: () => unknown): Promise<unknown> {
    await database.ready()
    const writesBefore = ruleWrites
    try {
      return await run()
    } finally {
      if (ruleWrites !== writesBefore) await database.rulesChanged()
    }
  }
  /** @param events the client of the database that has the log, with the same extensions */
  function refreshing<T extends object>(client: T, events: T): T {
    const proxy = new Proxy(client, {
      get(target, property) {
        if (property === 'rateLimitEvent') return Reflect.get(events, property)
        const value: unknown = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        if (property === '$transaction')
          return (...input: unknown[]) => refreshed(() => Reflect.apply(value, target, input))
        if (property === '$extends') {
          return (...input: unknown[]) => {
            const extended = Reflect.apply(value, target, input)
            return refreshing(extended, events === target ? extended : Reflect.apply(value, events, input))
          }
        }
        return value
      },
    })
    attachDatabase(proxy, database)
    return proxy
  }
  const client = extend(database)
  return refreshing(client, database.log === database ? client : extend(database.log))
}
