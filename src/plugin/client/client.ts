import { attachDatabase, Database, databaseFor } from '../../database/database.js'
import { partitionEvents } from '../../database/partitions.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import { loadModule, modulePath } from '../../ground/package-root.js'
import { type Clock, systemClock } from '../../ground/time/clock.js'
import { SQLITE_FUNCTIONS } from '../../limiter/stores/sql/sqlite-functions.js'
import type { RetentionOptions } from '../../log/rollups/retention.js'
import { withCheckedWrites } from './client-extension.js'
import { asNumbers, windowsAsText } from './result-fields.js'

export interface ClientOptions {
  /** `file:./ratelimit.db` (SQLite, created and migrated automatically) or `postgresql://…`. */
  readonly database?: string | undefined
  /** The PostgreSQL schema that holds the tables; `fastify_smart_ratelimit` unless given. */
  readonly schema?: string | undefined
  readonly clock?: Clock | undefined
  /** Whether a server may log events and read reports of a SQLite file on threads of their own; true unless given. */
  readonly threads?: boolean | undefined
}

/**
 * Creates a Prisma client for this package's tables: it validates rules before they are written, ids and counts are
 * numbers on both databases, and `rateLimitEvent.cleanupOld()` prunes the log.
 *
 * The first query opens the database. `$disconnect()` closes it.
 */
export function createRateLimitClient({ database: url, schema, clock = systemClock, threads }: ClientOptions = {}) {
  const database = new Database(url, schema, SQLITE_FUNCTIONS, threads)
  return createLazyClient(database, () => {
    const { createGeneratedClient } = loadModule(
      modulePath('src/database/prisma/generated-client'),
    ) as typeof import('../../database/prisma/generated-client.js')
    return extendClient(createGeneratedClient(database.url, database.schema), database, clock)
  })
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
export interface MigrateOptions extends Pick<ClientOptions, 'database' | 'schema'> {
  /** Whether the event log becomes a partitioned table, on PostgreSQL; false by default, and nothing undoes it. */
  readonly partitioned?: boolean | undefined
}

/**
 * Brings a database to the current schema. It can be repeated, and several processes can run it at once.
 *
 * @returns the names of the migrations that it applied
 */
export async function migrate({ database: url, schema, partitioned }: MigrateOptions = {}): Promise<string[]> {
  const database = new Database(url, schema)
  try {
    const applied = await database.migrate()
    if (partitioned) await partitionEvents(database)
    return applied
  } finally {
    await database.close()
  }
}

/** The Prisma client that `createRateLimitClient` makes. */
export type RateLimitClient = ReturnType<typeof createRateLimitClient>

/** Opens the database of a URL, or of a client, and returns it with a client. */
export function openDatabase(
  option: string | object | undefined,
  schema: string | undefined,
  clock: Clock,
): OpenDatabase {
  if (typeof option === 'object') {
    return { database: databaseFor(option), client: option as RateLimitClient, close: async () => undefined }
  }
  const client = createRateLimitClient({ database: option, schema, clock })
  return { database: databaseFor(client), client, close: () => client.$disconnect() }
}

export interface OpenDatabase {
  readonly database: Database
  readonly client: RateLimitClient
  /** Closes a database that was opened here; a client that was passed in stays open. */
  close(): Promise<void>
}

function extendClient(generated: GeneratedClient, database: Database, clock: Clock) {
  let ruleWrites = 0
  async function ruleWritten(isCommitted: boolean): Promise<void> {
    ruleWrites++
    if (isCommitted) await database.rulesChanged()
  }
  const underWay = new Set<Promise<unknown>>()
  database.replacedListeners.add(() => generated.$disconnect())
  function whenReady<T>(query: () => Promise<T>): Promise<T> {
    return database.explained(async () => {
      await database.ready()
      return query()
    })
  }
  const writes = { changed: ruleWritten, underWay, whenReady, dialect: database.dialect, now: () => clock.now() }
  const client = withCheckedWrites(generated, writes).$extends({
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
        await database.ready()
        await generated.$connect()
      },
      async $disconnect() {
        await Promise.allSettled(underWay)
        await Promise.all([generated.$disconnect(), database.close()])
      },
    },
  })

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
  function refreshing<T extends object>(client: T): T {
    const proxy = new Proxy(client, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        if (property === '$transaction')
          return (...input: unknown[]) => refreshed(() => Reflect.apply(value, target, input))
        if (property === '$extends') return (...input: unknown[]) => refreshing(Reflect.apply(value, target, input))
        return value
      },
    })
    attachDatabase(proxy, database)
    return proxy
  }
  return refreshing(client)
}
