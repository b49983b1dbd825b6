import type { Database } from './database.js'
import type { Dialect } from './dialect.js'

/** The rows of the revisions: changes of rules and overrides (counted by triggers), and resets of counters. */
const ROWS = { rules: 1, resets: 2 } as const

export type Revised = keyof typeof ROWS

/** Larger than any revision. */
const PER_FILE = 2 ** 40

/** Returns the statement that reads a revision: a number that differs after every change. */
export function revisionSql(kind: Revised, dialect: Dialect): string {
  return `SELECT revision FROM ${dialect.table('rate_limit_revision')} WHERE id = ${ROWS[kind]}`
}

/** Returns the revision, which differs from that of a file that was replaced. */
export async function readRevision(database: Database, kind: Revised): Promise<number> {
  const [row] = await database.query<{ revision: number }>(revisionSql(kind, database.dialect))
  return Number(row?.revision ?? 0) + database.replacements * PER_FILE
}

/** Makes every process drop cached state of a kind within two seconds. */
export async function bumpRevision(database: Database, kind: Revised): Promise<void> {
  await database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_revision')} (id, revision) VALUES ($1, 1)
     ON CONFLICT (id) DO UPDATE SET revision = rate_limit_revision.revision + 1`,
    [ROWS[kind]],
  )
}
