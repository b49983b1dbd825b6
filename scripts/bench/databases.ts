import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrate } from '../../src/index.js'
import type { Row } from './rows.js'

const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'
const CONNECT_TIMEOUT_MS = 2_000

/** Databases for one run of the benchmark, which leaves nothing behind. */
export interface BenchDatabases {
  readonly schema: string
  /** The URL that a row's server is given. */
  urlFor(row: Row): string | undefined
  remove(): Promise<void>
}

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

export async function createDatabases(withPostgres: boolean): Promise<BenchDatabases> {
  const schema = `bench_${process.pid}`
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-bench-'))
  if (withPostgres) await migrate({ database: POSTGRES_URL, schema })
  return {
    schema,
    urlFor({ needs }) {
      if (needs === undefined) return undefined
      return needs === 'sqlite' ? `file:${join(folder, 'bench.db')}` : POSTGRES_URL
    },
    async remove() {
      await rm(folder, { recursive: true, force: true })
      if (withPostgres) await dropSchema(schema)
    },
  }
}

async function dropSchema(schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: POSTGRES_URL })
  await client.connect()
  try {
    await client.query(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`)
  } finally {
    await client.end()
  }
}
