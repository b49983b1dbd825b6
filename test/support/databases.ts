import { rmSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import { type Database, databaseFor } from '../../src/database/database.js'
import type { Clock } from '../../src/ground/time/clock.js'
import { createRateLimitClient, migrate, type RateLimitClient } from '../../src/plugin/client/client.js'
import { longLeftOut } from './long.js'
import {
  createLogSchema,
  OTHER_POSTGRES_URL,
  POSTGRES_URL,
  probePostgresql,
  releaseSchema,
  takeSchema,
} from './postgresql-schemas.js'

export type Provider = 'sqlite' | 'postgresql'

export type DeclareTests = (provider: Provider, open: (clock?: Clock) => Promise<TestDatabase>) => void

export interface TestDatabase {
  readonly url: string
  readonly schema: string
  /** The option of this name, where the log has a database of its own. */
  readonly events: { readonly database: string } | undefined
  readonly client: RateLimitClient
  readonly database: Database
  /** The database of the log, which is the same unless another is chosen. */
  readonly log: Database
  /** Closes the client and removes the database with all that is in it. */
  close(): Promise<void>
}

/**
 * The reason why PostgreSQL is left out, or `false`. Continuous integration never leaves it out: there its tests fail.
 */
export const postgresqlMissing = process.env.CI === undefined ? await probePostgresql() : false

/** Declares the same tests for SQLite and for PostgreSQL. */
export function forEachDatabase(declareTests: DeclareTests): void {
  declareFor('sqlite', false, declareTests)
  declareFor('postgresql', postgresqlMissing, declareTests)
}

/**
 * Declares tests of what no difference between the databases can change, such as the words of a page: `npm test` runs them
 * on SQLite alone.
 */
export function forAnyDatabase(declareTests: DeclareTests): void {
  declareFor('sqlite', false, declareTests)
  declareFor('postgresql', postgresqlMissing || longLeftOut, declareTests)
}

function declareFor(provider: Provider, skip: string | false, declareTests: DeclareTests): void {
  describe(provider === 'sqlite' ? 'on SQLite' : 'on PostgreSQL', { skip }, () =>
    declareTests(provider, (clock) => openTestDatabase(provider, clock)),
  )
}

/** The database that the log has in all tests, where it is not that of rules and counters. */
const LOG =
  process.env.TEST_LOG_DATABASE === 'sqlite' || process.env.TEST_LOG_DATABASE === 'postgresql'
    ? process.env.TEST_LOG_DATABASE
    : undefined

/**
 * A new, migrated database: a file in a temporary folder, or a schema of a random name.
 *
 * @param log the kind of the database that the log has of its own; without it the log is in the same database
 */
export async function openTestDatabase(
  provider: Provider,
  clock?: Clock,
  log: Provider | undefined = LOG,
): Promise<TestDatabase> {
  const removals: (() => Promise<unknown>)[] = []
  const schema = provider === 'postgresql' || log === 'postgresql' ? await takeSchema() : undefined
  if (schema !== undefined) removals.push(() => releaseSchema(schema))

  async function createFile(): Promise<string> {
    const { url, remove } = await createSqliteFile()
    removals.push(remove)
    return url
  }

  async function createLog(kind: Provider): Promise<string> {
    if (kind === 'sqlite') return createFile()
    if (provider === 'sqlite' || schema === undefined) return POSTGRES_URL
    removals.push(await createLogSchema(schema.name))
    return OTHER_POSTGRES_URL
  }

  const url = provider === 'sqlite' ? await createFile() : POSTGRES_URL
  const events = log === undefined ? undefined : { database: await createLog(log) }
  // Starting a thread takes ten times as long as most tests.
  const client = createRateLimitClient({
    database: url,
    events,
    schema: schema?.name ?? 'unused',
    clock,
    threads: false,
  })
  const database = databaseFor(client)
  return {
    url,
    events,
    schema: database.schema,
    client,
    database,
    log: database.log,
    async close() {
      await client.$disconnect()
      for (const remove of removals.toReversed()) await remove()
    },
  }
}

/** The migrated file that this process copies: migrating each anew takes ten times as long. */
let template: Promise<string> | undefined

async function createSqliteFile(): Promise<{ url: string; remove: () => Promise<void> }> {
  template ??= createTemplate()
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-'))
  const path = join(folder, 'test.db')
  await copyFile(await template, path)
  return { url: `file:${path}`, remove: () => rm(folder, { recursive: true, force: true }) }
}

async function createTemplate(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-template-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'template.db')
  // The migration closes the file, which copies the write-ahead log into it.
  await migrate({ database: `file:${path}` })
  return path
}
