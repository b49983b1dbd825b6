import { rmSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import { type Database, databaseFor } from '../../src/database/database.js'
import type { Clock } from '../../src/ground/time/clock.js'
import { createRateLimitClient, migrate, type RateLimitClient } from '../../src/plugin/client/client.js'
import { POSTGRES_URL, probePostgresql, releaseSchema, takeSchema } from './postgresql-schemas.js'

export type Provider = 'sqlite' | 'postgresql'

export interface TestDatabase {
  readonly url: string
  readonly schema: string
  readonly client: RateLimitClient
  readonly database: Database
  /** Closes the client and removes the database with all that is in it. */
  close(): Promise<void>
}

/**
 * The reason why PostgreSQL is left out, or `false`. Continuous integration never leaves it out: there its tests fail.
 */
export const postgresqlMissing = process.env.CI === undefined ? await probePostgresql() : false

/** Declares the same tests for SQLite and for PostgreSQL. */
export function forEachDatabase(
  declareTests: (provider: Provider, open: (clock?: Clock) => Promise<TestDatabase>) => void,
): void {
  describe('on SQLite', () => declareTests('sqlite', (clock) => openTestDatabase('sqlite', clock)))
  describe('on PostgreSQL', { skip: postgresqlMissing }, () =>
    declareTests('postgresql', (clock) => openTestDatabase('postgresql', clock)),
  )
}

/** A new, migrated database: a file in a temporary folder, or a schema of a random name. */
export function openTestDatabase(provider: Provider, clock?: Clock): Promise<TestDatabase> {
  return provider === 'sqlite' ? openSqliteFile(clock) : openPostgresqlSchema(clock)
}

/** The migrated file that this process copies: migrating each anew takes ten times as long. */
let template: Promise<string> | undefined

async function openSqliteFile(clock: Clock | undefined): Promise<TestDatabase> {
  template ??= createTemplate()
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-'))
  const path = join(folder, 'test.db')
  await copyFile(await template, path)
  return open(`file:${path}`, 'unused', clock, () => rm(folder, { recursive: true, force: true }))
}

async function createTemplate(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-template-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'template.db')
  // The migration closes the file, which copies the write-ahead log into it.
  await migrate({ database: `file:${path}` })
  return path
}

async function openPostgresqlSchema(clock: Clock | undefined): Promise<TestDatabase> {
  const schema = await takeSchema()
  return open(POSTGRES_URL, schema.name, clock, () => releaseSchema(schema))
}

function open(url: string, schema: string, clock: Clock | undefined, remove: () => Promise<void>): TestDatabase {
  // Starting a thread takes ten times as long as most tests.
  const client = createRateLimitClient({ database: url, schema, clock, threads: false })
  return {
    url,
    schema,
    client,
    database: databaseFor(client),
    async close() {
      await client.$disconnect()
      await remove()
    },
  }
}
