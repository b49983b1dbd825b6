/** Reads rules and overrides a page at a time, also rows that raw SQL filled with values of other types. */
import Type from 'typebox'
import type { Database } from '../../database/database.js'
import { revisionSql } from '../../database/revision.js'
import { type Clock, MINUTE_MS } from '../../ground/time/clock.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { entriesAsJson, parseEntries, readSomeEntries } from '../../rules/read-entries.js'
import { RULES } from '../../rules/rule.js'
import type { RuleEntry } from '../../rules/rule-fields.js'
import { PositionNumber, PositionText, parseCursor, toCursor } from './cursor.js'
import { DEFAULT_LIMIT, type StoredOverride } from './entry-schemas.js'

/** A page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /** The cursor of the next page; null at the end. */
  readonly nextCursor: string | null
}

export interface PageOptions {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

/**
 * Makes a page of rows, of which one more than its limit was read.
 *
 * @param positionOf returns the position of a row in the list
 */
export function toPage<Item>(
  list: string,
  rows: readonly Item[],
  limit: number,
  positionOf: (item: Item) => readonly unknown[],
): Page<Item> {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? toCursor(list, positionOf(last)) : null
  return { items, nextCursor }
}

const RulePosition = Type.Tuple([PositionNumber, PositionText])

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
  async read({ limit = DEFAULT_LIMIT, cursor }: PageOptions): Promise<string> {
    const { dialect, query } = this.#database
    const after = cursor === undefined ? undefined : parseCursor('rules', RulePosition, cursor)
    const pageKey = `${limit} ${cursor}`
    const readAtMs = this.#clock.now()
    const kept = this.#keptFor(pageKey, readAtMs)
    const name = dialect.bytewise('name')
    const priority = dialect.whole('$3')
    const where = after === undefined ? '' : `WHERE priority < ${priority} OR (priority = ${priority} AND ${name} > $4)`
    const entries = entriesAsJson(RULES, dialect, `${where} ORDER BY priority DESC, ${name} LIMIT $2`)
    // The query is one statement: the rules are those of the revision.
    const [row] = await query<{ revision: number | null; entries: string | null }>(
      `SELECT revision, CASE WHEN revision = $1 THEN NULL ELSE ${entries} END AS entries
       FROM (SELECT (${revisionSql('rules', dialect)}) AS revision) AS current`,
      [kept?.revision ?? null, limit + 1, ...(after ?? [])],
    )
    const revision = row?.revision ?? null
    if (kept !== undefined && revision === kept.revision) return kept.text
    const rules = parseEntries(RULES, row?.entries).map(({ entry }) => entry)
    const text = JSON.stringify(toPage('rules', rules, limit, (rule) => [rule.priority, rule.name]))
    this.#kept = revision === null ? undefined : { pageKey, revision, readAtMs, text }
    return text
  }

  #keptFor(pageKey: string, nowMs: number): KeptPage | undefined {
    const kept = this.#kept
    if (kept?.pageKey !== pageKey) return undefined
    return nowMs >= kept.readAtMs && nowMs < kept.readAtMs + KEPT_MS ? kept : undefined
  }
}

export async function findRule(database: Database, name: string): Promise<RuleEntry | undefined> {
  const [rule] = await readSomeEntries(database, RULES, 'WHERE name = $1', [name])
  return rule?.entry
}

const IdPosition = Type.Tuple([PositionNumber])

/** Reads overrides in the order of their ids. */
export async function readOverrides(
  database: Database,
  { limit = DEFAULT_LIMIT, cursor, clients }: PageOptions & { readonly clients?: readonly string[] | undefined },
): Promise<Page<StoredOverride>> {
  const { dialect } = database
  const list = `overrides ${clients?.join() ?? ''}`
  const [afterId] = cursor === undefined ? [-1] : parseCursor(list, IdPosition, cursor)
  const isTheirs = clients === undefined ? '' : `AND ${dialect.isOneOf('client', '$3', 'text')}`
  const found = await readSomeEntries(
    database,
    OVERRIDES,
    `WHERE id > ${dialect.whole('$2')} ${isTheirs} ORDER BY id LIMIT $1`,
    [limit + 1, afterId, ...(clients === undefined ? [] : [JSON.stringify(clients)])],
  )
  const rows = found.map(({ id, entry }): StoredOverride => ({ id, ...entry }))
  return toPage(list, rows, limit, ({ id }) => [id])
}

export async function findOverride(database: Database, id: number) {
  const [override] = await readSomeEntries(database, OVERRIDES, `WHERE id = ${database.dialect.whole('$1')}`, [id])
  return override
}
