import { createGeneratedClient, type GeneratedClient } from './db/client.js'
import { attachDatabase, Database, databaseOf } from './db/database.js'
import { asNumbers, bucketNumbers, slidingWindowNumbers } from './db/state-numbers.js'
import { cleanupOldEvents, type RetentionOptions } from './events/retention.js'
import { type Clock, systemClock } from './time/clock.js'
import { withCheckedWrites } from './writes/client-extension.js'

export interface ClientOptions {
  /** `file:./ratelimit.db` (SQLite, created and migrated by itself) or `postgresql://…`. */
  readonly database?: string | undefined
  /** The PostgreSQL schema that holds the tables; `fastify_smart_ratelimit` unless given. */
  readonly schema?: string | undefined
  readonly clock?: Clock | undefined
  /** Whether a server may log events and read reports of a SQLite file on threads of their own; true unless given. */
  readonly threads?: boolean | undefined
}

/**
 * A Prisma client for this package's tables, with what belongs to them: rules are validated before they are written,
 * ids and counts are numbers on both databases, and `rateLimitEvent.cleanupOld()` prunes the log.
 *
 * It opens the database with the first query. `$disconnect()` closes it.
 */
export function createRateLimitClient({ database: url, schema, clock = systemClock, threads }: ClientOptions = {}) {
  const database = new Database(url, schema, threads)
  return extendClient(createGeneratedClient(database.url, database.schema), database, clock)
}

/** Where `migrate` finds the tables. */
export type MigrateOptions = Pick<ClientOptions, 'database' | 'schema'>

/**
 * Brings a database to today's schema. It can be repeated, and be run by several processes at once.
 *
 * @returns the names of the migrations that were applied now
 */
export async function migrate({ database: url, schema }: MigrateOptions = {}): Promise<string[]> {
  const database = new Database(url, schema)
  try {
    return await database.migrate()
  } finally {
    await database.close()
  }
}

/** The Prisma client that `createRateLimitClient` makes. */
export type RateLimitClient = ReturnType<typeof createRateLimitClient>

/** The database behind a URL, or behind a client, and a client for it. */
export function openDatabase(
  option: string | object | undefined,
  schema: string | undefined,
  clock: Clock,
): OpenDatabase {
  if (typeof option === 'object') {
    return { database: databaseOf(option), client: option as RateLimitClient, close: async () => undefined }
  }
  const client = createRateLimitClient({ database: option, schema, clock })
  return { database: databaseOf(client), client, close: () => client.$disconnect() }
}

export interface OpenDatabase {
  readonly database: Database
  readonly client: RateLimitClient
  /** Closes what was opened here; a client that was handed in stays open. */
  close(): Promise<void>
}

function extendClient(generated: GeneratedClient, database: Database, clock: Clock) {
  let ruleWrites = 0
  async function ruleWritten(isCommitted: boolean): Promise<void> {
    ruleWrites++
    if (isCommitted) await database.rulesChanged()
  }
  const underWay = new Set<Promise<unknown>>()
  function whenReady<T>(query: () => Promise<T>): Promise<T> {
    return database.explained(async () => {
      await database.ready()
      return query()
    })
  }
  const writes = { changed: ruleWritten, underWay, whenReady, now: () => clock.now() }
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
      rateLimitCounter: asNumbers('count'),
      rateLimitSlidingWindow: slidingWindowNumbers,
      rateLimitTokenBucket: bucketNumbers,
      rateLimitLeakyBucket: bucketNumbers,
    },
    model: {
      rateLimitEvent: {
        /** Deletes events older than `olderThanDays` (30), `batchSize` (1000) at a time, and answers how many. */
        cleanupOld: (options?: RetentionOptions) => cleanupOldEvents(database, clock, options),
      },
    },
    client: {
      async $connect() {
        // The file is created and migrated on this package's own connection, also when Prisma's is opened first.
        await database.ready()
        await generated.$connect()
      },
      async $disconnect() {
        await Promise.allSettled(underWay)
        await Promise.all([generated.$disconnect(), database.close()])
      },
    },
  })

  // What an interactive transaction wrote is in force after its commit.
  async function transaction(...parameters: unknown[]): Promise<unknown> {
    await database.ready()
    const writesBefore = ruleWrites
    try {
      return await Reflect.apply(client.$transaction, client, parameters)
    } finally {
      if (ruleWrites !== writesBefore) await database.rulesChanged()
    }
  }
  const withTransaction = new Proxy(client, {
    get: (target, property) => (property === '$transaction' ? transaction : Reflect.get(target, property)),
  })
  attachDatabase(withTransaction, database)
  return withTransaction
}
