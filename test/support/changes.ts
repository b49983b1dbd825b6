/** The history has the time of its database, which no clock of a test sets. */
import type { Database } from '../../src/database/database.js'

/** Sets the times of all changes, in milliseconds since 1970, the oldest change first; further ones have the last time. */
export async function dateChanges(database: Database, ...timesMs: readonly number[]): Promise<void> {
  const { dialect } = database
  const table = dialect.table('rate_limit_change')
  const rows = await database.query<{ id: number }>(`SELECT id FROM ${table} ORDER BY id`)
  for (const [place, { id }] of rows.entries()) {
    const atMs = timesMs[Math.min(place, timesMs.length - 1)] ?? 0
    await database.execute(`UPDATE ${table} SET changed_at = ${dialect.fromMs('$1')} WHERE id = $2`, [atMs, id])
  }
}
