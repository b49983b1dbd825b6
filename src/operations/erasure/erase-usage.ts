/** Deletes the usage of one client. */

import { restAfter } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { USAGE_TABLE } from '../../log/usage/usage-table.js'
import { type Batches, containsToken, tokenPatterns } from './batches.js'
import type { ErasedClient } from './erased-client.js'

/** @returns the number of its sums */
export async function eraseUsage(
  database: Database,
  erased: ErasedClient,
  { dryRun, signal }: Batches,
): Promise<number> {
  const table = database.dialect.table(USAGE_TABLE)
  const patterns = tokenPatterns(erased)
  const rows = await database.report((query) =>
    query<{ client: string; sums: number }>(
      `SELECT client, COUNT(*) AS sums FROM ${table} WHERE ${containsToken('client', patterns)} GROUP BY client`,
      patterns,
    ),
  )
  let deleted = 0
  for (const { client, sums } of rows) {
    if (signal?.aborted || !erased.has(client, true)) continue
    const startedMs = performance.now()
    deleted += dryRun ? Number(sums) : await database.execute(`DELETE FROM ${table} WHERE client = $1`, [client])
    if (!dryRun) await restAfter(startedMs)
  }
  return deleted
}
