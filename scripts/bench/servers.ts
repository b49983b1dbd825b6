/** The database servers of the benchmark, the same as those of the tests; each is used where it answers. */
import { spawnSync } from 'node:child_process'
import { Redis } from 'ioredis'
import pg from 'pg'

export const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'
export const REDIS_URL = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'
const CONNECT_TIMEOUT_MS = 2_000
/** The unit of time in `/proc/<pid>/stat`. */
const TICK_MICROSECONDS = 10_000

export type Need = 'sqlite' | 'postgresql' | 'redis'

export function isPostgresReachable(): Promise<boolean> {
  return withPostgres(async () => true).catch(() => false)
}

export function isRedisReachable(): Promise<boolean> {
  return withRedis(async () => true).catch(() => false)
}

export async function dropSchema(schema: string): Promise<void> {
  await withPostgres((client) => client.query(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`))
}

/** Removes every key that contains the name, which each library puts behind its own prefix. */
export async function removeRedisKeys(name: string): Promise<void> {
  await withRedis(async (redis) => {
    for await (const keys of redis.scanStream({ match: `*${name}*`, count: 1_000 })) {
      if (keys.length > 0) await redis.unlink(keys)
    }
  })
}

/**
 * Returns the CPU time that the database server has used so far, in microseconds: 0 where the row has none, and NaN for
 * a PostgreSQL whose processes are not to be seen.
 */
export function databaseMicroseconds(need: Need | undefined): number | Promise<number> {
  if (need === 'postgresql') return postgresMicroseconds()
  if (need === 'redis') return withRedis(redisMicroseconds)
  return 0
}

/** Sums up user and system time of every process, and of the ended ones, which are part of their parent's figures. */
function postgresMicroseconds(): number {
  const { stdout } = spawnSync('sh', ['-c', 'cat /proc/[0-9]*/stat'], { encoding: 'utf8' })
  const processes = [...(stdout ?? '').matchAll(/^\d+ \(postgres\) \S(?: \S+){10} (\d+) (\d+) (\d+) (\d+)/gm)]
  const ticks = processes.flatMap(([, ...times]) => times.map(Number))
  return ticks.length === 0 ? Number.NaN : sum(ticks) * TICK_MICROSECONDS
}

async function redisMicroseconds(redis: Redis): Promise<number> {
  const seconds = [...(await redis.info('cpu')).matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)]
  return sum(seconds.map(([, value]) => Number(value))) * 1_000_000
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

async function withPostgres<Result>(use: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  await client.connect()
  return use(client).finally(() => client.end())
}

async function withRedis<Result>(use: (redis: Redis) => Promise<Result>): Promise<Result> {
  const options = { lazyConnect: true, connectTimeout: CONNECT_TIMEOUT_MS, retryStrategy: () => null }
  // The promise of `connect` rejects with the same error.
  const redis = new Redis(REDIS_URL, options).on('error', () => undefined)
  try {
    await redis.connect()
    return await use(redis)
  } finally {
    redis.disconnect()
  }
}
