import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packagePath } from '../ground/package-root.js'
import type { Dialect, Query, SqlConnection } from './dialect.js'

interface LedgerRow {
  readonly name: string
  readonly checksum: string
  readonly finished: number
}

interface Migration {
  readonly name: string
  readonly sql: string
  /** The hash of the script, as Prisma records it. */
  readonly checksum: string
}

/**
 * Applies the migrations that a database lacks, in order, each file as one script, all in one exclusive transaction: of
 * several processes that start at once, one migrates and the others find it done. The ledger is Prisma's, so that
 * `prisma migrate deploy` agrees afterwards.
 *
 * @param changed returns the error for migrations that were applied in another form than this version has
 * @returns the names of the migrations that were applied now
 */
export async function applyMigrations(
  dialect: Dialect,
  connection: SqlConnection,
  changed: (names: readonly string[]) => Error,
): Promise<string[]> {
  const migrations = await shippedMigrations(dialect)
  return connection.exclusively(async (query, script) => {
    await script(dialect.createLedger)
    const ledger = await readLedger(dialect, query)
    requireFinished(ledger)
    requireUnchanged(migrations, ledger, changed)
    const done = new Set(ledger.map(({ name }) => name))
    const pending = migrations.filter(({ name }) => !done.has(name))
    for (const migration of pending) {
      const startedMs = Date.now()
      await script(migration.sql)
      await recordMigration(dialect, query, migration, startedMs)
    }
    return pending.map(({ name }) => name)
  })
}

/**
 * Returns the names of the shipped migrations that a database lacks, including unfinished ones. Changes nothing.
 *
 * @param changed as for `applyMigrations`
 */
export async function missingMigrations(
  dialect: Dialect,
  query: Query,
  changed: (names: readonly string[]) => Error,
): Promise<string[]> {
  const [migrations, ledger] = await Promise.all([shippedMigrations(dialect), readLedger(dialect, query)])
  requireUnchanged(migrations, ledger, changed)
  const finished = new Set(ledger.filter((row) => row.finished === 1).map(({ name }) => name))
  return migrations.map(({ name }) => name).filter((name) => !finished.has(name))
}

/** Reads the migrations of this version, in their order. */
async function shippedMigrations({ provider }: Dialect): Promise<readonly Migration[]> {
  const folder = packagePath('prisma', provider, 'migrations')
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  return Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(join(folder, name, 'migration.sql'), 'utf8')
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
    }),
  )
}

function readLedger(dialect: Dialect, query: Query): Promise<LedgerRow[]> {
  return query<LedgerRow>(
    `SELECT migration_name AS name, checksum, CASE WHEN finished_at IS NULL THEN 0 ELSE 1 END AS finished
     FROM ${dialect.table('_prisma_migrations')} WHERE rolled_back_at IS NULL`,
  )
}

function requireFinished(ledger: readonly LedgerRow[]): void {
  const failed = ledger.find(({ finished }) => finished === 0)
  if (failed === undefined) return
  throw new Error(
    `Migration ${failed.name} was started by another tool and did not finish: repair the tables, then settle its row in _prisma_migrations with "prisma migrate resolve"`,
  )
}

/** A migration is edited until its first release: a database of an earlier checkout has other tables under its name. */
function requireUnchanged(
  migrations: readonly Migration[],
  ledger: readonly LedgerRow[],
  changed: (names: readonly string[]) => Error,
): void {
  const checksums = new Map(ledger.map(({ name, checksum }) => [name, checksum]))
  const names = migrations
    .filter(({ name, checksum }) => checksum !== (checksums.get(name) ?? checksum))
    .map(({ name }) => name)
  if (names.length > 0) throw changed(names)
}

async function recordMigration(
  dialect: Dialect,
  query: Query,
  { name, checksum }: Migration,
  startedMs: number,
): Promise<void> {
  await query(
    `INSERT INTO "_prisma_migrations" (id, checksum, migration_name, started_at, finished_at, applied_steps_count)
     VALUES ($1, $2, $3, ${dialect.fromMs('$4')}, ${dialect.fromMs('$5')}, 1)`,
    [randomUUID(), checksum, name, startedMs, Date.now()],
  )
}
