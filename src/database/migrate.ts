import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packagePath } from '../ground/package-root.js'
import type { Dialect, Query, SqlConnection } from './dialect.js'

interface LedgerRow {
  readonly name: string
  readonly finished: number
}

/**
 * Applies the migrations that a database lacks, in order, each file as one script, all in one exclusive transaction: of
 * several processes that start at once, one migrates and the others find it done. The ledger is Prisma's, so that
 * `prisma migrate deploy` agrees afterwards.
 *
 * @returns the names of the migrations that were applied now
 */
export async function applyMigrations(dialect: Dialect, connection: SqlConnection): Promise<string[]> {
  const names = await shippedMigrations(dialect)
  const scripts = await Promise.all(
    names.map(async (name) => ({ name, sql: await readFile(join(folderFor(dialect), name, 'migration.sql'), 'utf8') })),
  )
  return connection.exclusively(async (query, script) => {
    await script(dialect.createLedger)
    const done = await finishedMigrations(dialect, query)
    const pending = scripts.filter(({ name }) => !done.has(name))
    for (const { name, sql } of pending) {
      const startedMs = Date.now()
      await script(sql)
      await recordMigration(dialect, query, name, sql, startedMs)
    }
    return pending.map(({ name }) => name)
  })
}

/** Returns the names of the shipped migrations that a database lacks, including unfinished ones. Changes nothing. */
export async function missingMigrations(dialect: Dialect, query: Query): Promise<string[]> {
  const [names, ledger] = await Promise.all([shippedMigrations(dialect), readLedger(dialect, query)])
  const finished = new Set(ledger.filter((row) => row.finished === 1).map(({ name }) => name))
  return names.filter((name) => !finished.has(name))
}

function folderFor({ provider }: Dialect): string {
  return packagePath('prisma', provider, 'migrations')
}

async function shippedMigrations(dialect: Dialect): Promise<string[]> {
  const entries = await readdir(folderFor(dialect), { withFileTypes: true })
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()
}

function readLedger(dialect: Dialect, query: Query): Promise<LedgerRow[]> {
  return query<LedgerRow>(
    `SELECT migration_name AS name, CASE WHEN finished_at IS NULL THEN 0 ELSE 1 END AS finished
     FROM ${dialect.table('_prisma_migrations')} WHERE rolled_back_at IS NULL`,
  )
}

async function finishedMigrations(dialect: Dialect, query: Query): Promise<Set<string>> {
  const ledger = await readLedger(dialect, query)
  const failed = ledger.find(({ finished }) => finished === 0)
  if (failed !== undefined) {
    throw new Error(
      `Migration ${failed.name} was started by another tool and did not finish: repair the tables, then settle its row in _prisma_migrations with "prisma migrate resolve"`,
    )
  }
  return new Set(ledger.map(({ name }) => name))
}

async function recordMigration(
  dialect: Dialect,
  query: Query,
  name: string,
  sql: string,
  startedMs: number,
): Promise<void> {
  const checksum = createHash('sha256').update(sql).digest('hex')
  await query(
    `INSERT INTO "_prisma_migrations" (id, checksum, migration_name, started_at, finished_at, applied_steps_count)
     VALUES ($1, $2, $3, ${dialect.fromMs('$4')}, ${dialect.fromMs('$5')}, 1)`,
    [randomUUID(), checksum, name, startedMs, Date.now()],
  )
}
