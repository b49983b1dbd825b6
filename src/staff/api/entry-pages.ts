/** Reads rules and overrides a page at a time, also rows that raw SQL filled with values of other types. */
import type { Database } from '../../database/database.js'
import type { List } from '../../database/list.js'
import { revisionSql } from '../../database/revision.js'
import { type Clock, MINUTE_MS } from '../../ground/time/clock.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { readSomeEntries } from '../../rules/read-entries.js'
import { RULES, ruleOrder } from '../../rules/rule.js'
import type { RuleEntry } from '../../rules/rule-fields.js'
import { type CursorOptions, type CursorPage, readCursorPage } from './cursor.js'
import type { StoredOverride } from './entry-schemas.js'

/** The time for which a page is kept: a restored backup may have other rules of the same revision. */
const KEPT_MS = MINUTE_MS

/** A page as it was answered. */
interface KeptPage {
  readonly pageKey: string
  readonly revision: number
  readonly readAtMs: number
  readonly text: string
}

/** The list of rules. It keeps the text of the last page for as long as the revision says that no rule has changed. */
export class RulePages {
  readonly #database: Database
  readonly #clock: Clock
  #kept: KeptPage | undefined

  constructor(database: Database, clock: Clock) {
    this.#database = database
    this.#clock = clock
  }

  /** Reads a page by priority, the highest first, and name, and returns it as JSON. */
  async read(options: CursorOptions): Promise<string> {
    const { dialect, query } = this.#database
    const pageKey = `${options.limit} ${options.cursor}`
    const readAtMs = this.#clock.now()
    // The revision is read before the rules: where these are newer, the next request reads them again.
    const [row] = await query<{ revision: number }>(revisionSql('rules', dialect))
    const kept = this.#kept
    const isFresh = kept !== undefined && readAtMs >= kept.readAtMs && readAtMs < kept.readAtMs + KEPT_MS
    if (isFresh && kept.pageKey === pageKey && kept.revision === row?.revision) return kept.text
    const list: List<RuleEntry> = {
      order: ruleOrder(dialect),
      position: ({ priority, name }) => [priority, name],
      where: () => [],
      select: async (rest, { values }) =>
        (await readSomeEntries(this.#database, RULES, rest, values)).map(({ entry }) => entry),
    }
    const text = JSON.stringify(await readCursorPage(dialect, 'rules', list, options))
    this.#kept = row && { pageKey, revision: row.revision, readAtMs, text }
    return text
  }
}

export async function findRule(database: Database, name: string): Promise<RuleEntry | undefined> {
  const [rule] = await readSomeEntries(database, RULES, 'WHERE name = $1', [name])
  return rule?.entry
}

/** Reads overrides in the order of their ids. */
export async function readOverrides(
  database: Database,
  { clients, ...page }: CursorOptions & { readonly clients?: readonly string[] | undefined },
): Promise<CursorPage<StoredOverride>> {
  const { dialect } = database
  const list: List<StoredOverride> = {
    order: [{ sql: 'id', kind: 'whole' }],
    position: ({ id }) => [id],
    where: (parameters) =>
      clients === undefined ? [] : [dialect.isOneOf('client', parameters.add(JSON.stringify(clients)), 'text')],
    select: async (rest, { values }) =>
      (await readSomeEntries(database, OVERRIDES, rest, values)).map(({ id, entry }) => ({ id, ...entry })),
  }
  return readCursorPage(dialect, `overrides ${clients?.join() ?? ''}`, list, page)
}

export async function findOverride(database: Database, id: number) {
  const [override] = await readSomeEntries(database, OVERRIDES, `WHERE id = ${database.dialect.whole('$1')}`, [id])
  return override
}
