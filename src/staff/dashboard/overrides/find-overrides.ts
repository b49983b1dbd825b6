import type { AddressPrivacy } from '../../../clients/address-privacy.js'
import type { Database } from '../../../database/database.js'
import { readPage } from '../../../database/list.js'
import { completeRows, type ListedOverride, overrideList } from './list-overrides.js'

/** The overrides and bans that a text may mean. */
export interface FoundOverrides {
  readonly overrides: readonly ListedOverride[]
  /** The number of all of them, up to the one that was asked for. */
  readonly count: number
}

/**
 * Finds overrides and bans as the search of their list does, the newest first.
 *
 * @param limit the most overrides to return
 * @param most the number up to which they are counted
 */
export async function findOverrides(
  database: Database,
  privacy: AddressPrivacy | undefined,
  text: string,
  { limit, most }: { readonly limit: number; readonly most: number },
  nowMs: number,
): Promise<FoundOverrides> {
  const listing = { text, kind: undefined, state: undefined, order: 'newest' } as const
  const list = overrideList(database, privacy, listing, nowMs)
  const { rows } = await readPage(database.dialect, list, { limit: most })
  return { overrides: await completeRows(database, list, rows.slice(0, limit)), count: rows.length }
}
