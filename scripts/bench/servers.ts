/** The database servers of the benchmark, the same as those of the tests; each is used where it answers. */
import { Redis } from 'ioredis'
import pg from 'pg'

export const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'
export const REDIS_URL = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'
const CONNECT_TIMEOUT_MS = 2_000

export async function isPostgresReachable(): Promise<boolean> {
  const client = new pg.Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

export async function isRedisReachable(): Promise<boolean> {
  const redis = openRedis()
  try {
    await redis.connect()
    return true
  } catch {
    return false
  } finally {
    redis.disconnect()
  }
}

export async function dropSchema(schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: POSTGRES_URL })
  await client.connect()
  try {
    await client.query(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`)
  } finally {
    await client.end()
  }
}

/** Removes every key that contains the name, which each library puts behind its own prefix. */
export async function removeRedisKeys(name: string): Promise<void> {
  const redis = openRedis()
  try {
    await redis.connect()
    for await (const keys of redis.scanStream({ match: `*${name}*`, count: 1_000 })) {
      if (keys.length > 0) await redis.unlink(keys)
    }
  } finally {
    redis.disconnect()
  }
}

function openRedis(): Redis {
  const redis = new Redis(REDIS_URL, {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: () => null,
  })
  // The promise of `connect` rejects with the same error.
  redis.on('error', () => undefined)
  return redis
}
