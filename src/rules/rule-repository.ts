import { setImmediate } from 'node:timers/promises'
import type { Dialect, Query } from '../db/dialect.js'
import { errorMessage } from '../errors.js'
import { Slices } from '../time/slices.js'
import { enforcedColumns } from './description.js'
import type { RejectedRow } from './load-reports.js'
import { parseRule, RULES, type Rule, type RuleRow } from './rule.js'

/** Rows per statement: few enough that a synchronous driver does not delay requests. */
const PAGE_SIZE = 1_000
const BEFORE_ALL_IDS = Number.MIN_SAFE_INTEGER
const COLUMNS = enforcedColumns(RULES.fields)

export type StoredRule = RuleRow & { readonly id: number }

/** The source of rules. */
export interface RuleSource {
  readonly query: Query
  readonly dialect: Dialect
}

export interface LoadedRules {
  readonly rules: readonly Rule[]
  readonly rejected: readonly RejectedRow[]
  /** The result of each row, by its text. */
  readonly rows: ReadonlyMap<string, Rule | RejectedRow>
}

/** Reads and parses the active rules. */
export async function loadActiveRules(source: RuleSource): Promise<LoadedRules> {
  return parseRules(await readRuleRows(source))
}

/**
 * Reads the active rules, a page at a time. They are of one moment where the source is a snapshot, or where nothing is
 * written meanwhile.
 *
 * @param onRows called when the first of many rows have arrived
 */
export async function readRuleRows(
  { query, dialect }: RuleSource,
  onRows: () => void = () => undefined,
): Promise<readonly StoredRule[]> {
  const rows: StoredRule[] = []
  for (;;) {
    const page = await readPage(query, dialect, rows.at(-1)?.id ?? BEFORE_ALL_IDS)
    rows.push(...page)
    if (page.length < PAGE_SIZE) return rows
    onRows()
    await setImmediate()
  }
}

/**
 * Parses rows, in slices. An invalid row is left out and reported, and does not affect other rules.
 *
 * @param previous returned again where the rows are the same; its rules are used again for unchanged rows
 */
export async function parseRules(stored: readonly StoredRule[], previous?: LoadedRules): Promise<LoadedRules> {
  const slices = new Slices()
  const rows = new Map<string, Rule | RejectedRow>()
  let isSame = stored.length === previous?.rows.size
  for (const row of stored) {
    const text = JSON.stringify(row)
    const known = previous?.rows.get(text)
    isSame &&= known !== undefined
    rows.set(text, known ?? parsed(row))
    if (slices.over()) await slices.pause()
  }
  if (isSame && previous !== undefined) return previous
  const rules: Rule[] = []
  const rejected: RejectedRow[] = []
  for (const row of rows.values()) {
    if ('reason' in row) rejected.push(row)
    else rules.push(row)
  }
  return { rules, rejected, rows }
}

function readPage(query: Query, dialect: Dialect, afterId: number): Promise<StoredRule[]> {
  return query(
    `SELECT id, ${COLUMNS} FROM ${dialect.table(RULES.table)} WHERE is_active AND id > $1 ORDER BY id LIMIT ${PAGE_SIZE}`,
    [afterId],
  )
}

function parsed(row: RuleRow): Rule | RejectedRow {
  try {
    return parseRule(row)
  } catch (error) {
    return { entity: 'rule', name: String(row.name), reason: errorMessage(error) }
  }
}
