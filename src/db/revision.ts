import type { Database } from './database.js'

/** What is counted, each in a row of its own: changes of rules and overrides (by triggers), and resets of counters. */
const ROWS = { rules: 1, resets: 2 } as const

export type Revised = keyof typeof ROWS

/** A number that changes with every change. */
export async function readRevision(database: Database, of: Revised): Promise<number> {
  const [row] = await database.query<{ revision: number }>(
    `SELECT revision FROM ${database.dialect.table('rate_limit_revision')} WHERE id = $1`,
    [ROWS[of]],
  )
  return Number(row?.revision ?? 0)
}

/** Makes every process forget, within two seconds, what it remembers of that. */
export async function bumpRevision(database: Database, of: Revised): Promise<void> {
  await database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_revision')} (id, revision) VALUES ($1, 1)
     ON CONFLICT (id) DO UPDATE SET revision = rate_limit_revision.revision + 1`,
    [ROWS[of]],
  )
}
