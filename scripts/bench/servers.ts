/** The databases of the benchmarks, on the same servers as those of the tests; each is used where it answers. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import { migrate } from '../../src/index.js'

const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'
const REDIS_URL = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'
const CONNECT_TIMEOUT_MS = 2_000
/** The unit of time in `/proc/<pid>/stat`. */
const TICK_MICROSECONDS = 10_000

export type Need = 'sqlite' | 'postgresql' | 'redis'

/** A database of its own for one measurement. */
export interface Backend {
  /** The URL of the database that is needed, which without a need is one of SQLite. */
  readonly url: string
  /** The URL of a database for rules: that database, or one of SQLite beside a Redis. */
  readonly rules: string
  /** The PostgreSQL schema and the prefix of keys: letters, digits and underscores. */
  readonly name: string
  /** A folder for files, which is removed with the databases. */
  readonly folder: string
}

/** The backends of one run of a benchmark. */
export class Backends {
  readonly #folder = mkdtempSync(join(tmpdir(), 'ratelimit-bench-'))
  #made = 0

  /** Passes an empty database to `use`, so that rows do not affect each other, and removes it afterwards. */
  async with<Result>(
    { needs }: { readonly needs?: Need },
    use: (backend: Backend) => Promise<Result>,
  ): Promise<Result> {
    const name = `bench_${process.pid}_${++this.#made}`
    const schema = pg.escapeIdentifier(name)
    try {
      if (needs === 'postgresql') await migrate({ database: POSTGRES_URL, schema: name })
      const rules = needs === 'postgresql' ? POSTGRES_URL : `file:${join(this.#folder, `${name}.db`)}`
      return await use({ name, rules, folder: this.#folder, url: needs === 'redis' ? REDIS_URL : rules })
    } finally {
      if (needs === 'postgresql')
        await withPostgres((client) => client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`))
      if (needs === 'redis') await withRedis((redis) => removeKeys(redis, name))
    }
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Returns whether the server of a database answers. */
export async function isReachable(need: Need): Promise<boolean> {
  if (need === 'sqlite') return true
  const connecting = need === 'redis' ? withRedis(async () => true) : withPostgres(async () => true)
  return connecting.catch(() => false)
}

/** Removes every key that contains the name, which each library puts behind its own prefix. */
async function removeKeys(redis: Redis, name: string): Promise<void> {
  for await (const keys of redis.scanStream({ match: `*${name}*`, count: 1_000 })) {
    if (keys.length > 0) await redis.unlink(keys)
  }
}

/**
 * Returns the CPU time that the database server has used so far, in microseconds: 0 where the row has none, and NaN for
 * a PostgreSQL whose processes are not to be seen.
 */
export async function databaseMicroseconds(need: Need | undefined): Promise<number> {
  if (need === 'redis') {
    const cpu = await withRedis((redis) => redis.info('cpu'))
    return sum([...cpu.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, seconds]) => Number(seconds))) * 1_000_000
  }
  if (need !== 'postgresql') return 0
  // User and system time of every process, and of the ended ones, which are part of their parent's figures.
  const { stdout } = spawnSync('sh', ['-c', 'cat /proc/[0-9]*/stat'], { encoding: 'utf8' })
  const processes = [...(stdout ?? '').matchAll(/^\d+ \(postgres\) \S(?: \S+){10} (\d+) (\d+) (\d+) (\d+)/gm)]
  const ticks = processes.flatMap(([, ...times]) => times.map(Number))
  return ticks.length === 0 ? Number.NaN : sum(ticks) * TICK_MICROSECONDS
}

export function sum(values: readonly number[]): number {
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
