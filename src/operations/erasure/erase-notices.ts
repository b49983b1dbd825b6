/** Deletes the notices of one client. */
import type { Database } from '../../database/database.js'
import { ALERT_TABLE } from '../alerts/ledger.js'
import { NOTICE_TABLE } from '../alerts/notice-table.js'
import { type Batches, containsToken, tokenPatterns } from './batches.js'
import type { ErasedClient } from './erased-client.js'

/** @returns the number of its notices */
export async function eraseNotices(
  database: Database,
  erased: ErasedClient,
  { dryRun, signal }: Batches,
): Promise<number> {
  const { isOneOf, table } = database.dialect
  const patterns = tokenPatterns(erased)
  const rows = await database.report((query) =>
    query<{ id: string; client: string }>(
      `SELECT id, client FROM ${table(NOTICE_TABLE)} WHERE ${containsToken('client', patterns)}`,
      patterns,
    ),
  )
  const ids = rows.filter(({ client }) => erased.has(client, true)).map(({ id }) => id)
  if (dryRun || signal?.aborted) return dryRun ? ids.length : 0
  // An id is a hash of the client's counter: the memory of what was told goes with it.
  await database.execute(`DELETE FROM ${table(ALERT_TABLE)} WHERE ${isOneOf('key', '$1', 'text')}`, [
    JSON.stringify(ids),
  ])
  return database.execute(`DELETE FROM ${table(NOTICE_TABLE)} WHERE ${isOneOf('id', '$1', 'text')}`, [
    JSON.stringify(ids),
  ])
}
