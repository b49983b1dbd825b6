import type { Database } from './database.js'

/** The revision: every change of a rule or an override counts it up, through database triggers, and so does a reset. */
export async function readRevision(database: Database): Promise<number> {
  const [row] = await database.query<{ revision: number }>(
    `SELECT revision FROM ${database.dialect.table('rate_limit_revision')} WHERE id = 1`,
  )
  return Number(row?.revision ?? 0)
}

/** Makes every process read afresh, within two seconds, what it has cached. */
export async function bumpRevision(database: Database): Promise<void> {
  await database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_revision')} (id, revision) VALUES (1, 1)
     ON CONFLICT (id) DO UPDATE SET revision = rate_limit_revision.revision + 1`,
  )
}
