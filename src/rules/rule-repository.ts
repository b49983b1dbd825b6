import { setImmediate } from 'node:timers/promises'
import type { ConditionSources } from '../clients/condition-sources.js'
import type { Dialect, Query } from '../database/dialect.js'
import { listById, pages } from '../database/list.js'
import { errorMessage } from '../ground/errors.js'
import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import { enforcedColumns } from './description.js'
import { MAX_GROUPS, MAX_NAMED_GROUPS } from './group.js'
import type { RejectedRow } from './load-log.js'
import { parseRule, RULES, type Rule, type RuleRow } from './rule.js'
import { unmetNeed } from './unmet-needs.js'

/** Rows per statement: few enough that a synchronous driver does not delay requests. */
const PAGE_SIZE = 1_000
const COLUMNS = enforcedColumns(RULES.fields)

export type StoredRule = RuleRow & { readonly id: number }

/** The source of rules. */
export interface RuleSource {
  readonly query: Query
  readonly dialect: Dialect
  /** What conditions may ask; undefined where that is not known. */
  readonly sources?: ConditionSources | undefined
}

export interface LoadedRules {
  readonly rules: readonly Rule[]
  readonly rejected: readonly RejectedRow[]
}

/** Reads and parses the active rules. */
export async function loadActiveRules(source: RuleSource): Promise<LoadedRules> {
  const reader = new RuleReader(source.sources)
  await reader.readAll(source)
  return reader.apply()
}

interface ParsedRow {
  readonly text: string
  readonly name: string
  readonly result: Rule | RejectedRow
}

/**
 * Follows the active rules: an edit costs the same however many rules there are. Reading changes nothing: `apply` creates
 * the rules from all that was read. They are of one moment where the source is a snapshot, or where nothing is written
 * meanwhile.
 */
export class RuleReader {
  readonly #rows = new Map<number, ParsedRow>()
  readonly #ids = new Map<string, number>()
  /** Rows that were read and are not applied yet, by their ids; null for one that is no active rule. */
  #read = new Map<number, StoredRule | null>()
  #loaded: LoadedRules | undefined
  readonly #sources: ConditionSources | undefined

  /** @param sources what conditions may ask; undefined where that is not known */
  constructor(sources: ConditionSources | undefined) {
    this.#sources = sources
  }

  /**
   * Reads all rules, a page at a time.
   *
   * @param onRows called when the first of many rows have arrived
   */
  async readAll({ query, dialect }: RuleSource, onRows: () => void = () => undefined): Promise<void> {
    const read = new Map<number, StoredRule | null>()
    const select = `SELECT id, ${COLUMNS} FROM ${dialect.table(RULES.table)}`
    for await (const page of pages(
      dialect,
      listById<StoredRule>(query, select, () => ['is_active']),
      PAGE_SIZE,
    )) {
      for (const row of page) read.set(row.id, row)
      if (page.length === PAGE_SIZE) onRows()
      await setImmediate()
    }
    for (const id of this.#rows.keys()) if (!read.has(id)) read.set(id, null)
    this.#read = read
  }

  /** Reads some rules again. */
  async readSome({ query, dialect }: RuleSource, ids: readonly number[]): Promise<void> {
    if (ids.length === 0) return
    const rows = await query<StoredRule>(
      `SELECT id, ${COLUMNS} FROM ${dialect.table(RULES.table)} WHERE is_active AND ${dialect.isOneOf('id', '$1', 'bigint')}`,
      [JSON.stringify(ids)],
    )
    for (const id of ids) this.#read.set(id, null)
    for (const row of rows) this.#read.set(row.id, row)
  }

  /**
   * Parses what was read, in slices; returns the same rules where nothing changed. An invalid row is left out and
   * reported, and does not affect other rules.
   */
  async apply(): Promise<LoadedRules> {
    const slices = new CooperativeYield()
    let isSame = true
    for (const [id, row] of this.#read) {
      if (row === null ? this.#remove(id) : this.#put(row)) isSame = false
      if (slices.over()) await slices.pause()
    }
    this.#read = new Map()
    if (isSame && this.#loaded !== undefined) return this.#loaded
    const rules: Rule[] = []
    const rejected: RejectedRow[] = []
    const results = [...this.#rows.values()].map(({ result }) => result)
    const groups = inForceGroups(results)
    for (const result of results) {
      if ('reason' in result) rejected.push(result)
      else if (groups.has(result.group)) rules.push(result)
      else rejected.push({ entity: 'rule', name: result.name, reason: tooManyGroups(result.group) })
    }
    this.#loaded = { rules, rejected }
    return this.#loaded
  }

  /** @returns whether that changed anything; so do the others */
  #put(row: StoredRule): boolean {
    const { id } = row
    const name = String(row.name)
    const text = JSON.stringify(row)
    if (this.#rows.get(id)?.text === text) return false
    this.#remove(id)
    // The deletion of a row that SQLite's REPLACE overwrote was not recorded.
    const replaced = this.#ids.get(name)
    if (replaced !== undefined) this.#remove(replaced)
    this.#rows.set(id, { text, name, result: parsed(row, this.#sources) })
    this.#ids.set(name, id)
    return true
  }

  #remove(id: number): boolean {
    const row = this.#rows.get(id)
    if (row !== undefined && this.#ids.get(row.name) === id) this.#ids.delete(row.name)
    return this.#rows.delete(id)
  }
}

/** Returns the groups that apply, by their names: as many as there may be, where raw SQL wrote more. */
function inForceGroups(results: readonly (Rule | RejectedRow)[]): ReadonlySet<string> {
  const named = new Set(results.flatMap((result) => ('reason' in result || result.group === '' ? [] : [result.group])))
  return new Set(['', ...[...named].sort().slice(0, MAX_NAMED_GROUPS)])
}

function tooManyGroups(group: string): string {
  return `the group ${JSON.stringify(group)} is one more than the ${MAX_GROUPS} that are allowed`
}

function parsed(row: RuleRow, sources: ConditionSources | undefined): Rule | RejectedRow {
  try {
    const rule = parseRule(row)
    const unmet = sources && unmetNeed(rule.condition, sources)
    return unmet === undefined ? rule : { entity: 'rule', name: rule.name, reason: `condition: ${unmet}` }
  } catch (error) {
    return { entity: 'rule', name: String(row.name), reason: errorMessage(error) }
  }
}
