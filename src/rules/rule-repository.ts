import { setImmediate } from 'node:timers/promises'
import type { Database } from '../db/database.js'
import { readRevision } from '../db/revision.js'
import { messageOf } from '../errors.js'
import type { RejectedRow } from './load-reports.js'
import { parseRule, type Rule, type RuleRow } from './rule.js'
import { Slices } from './slices.js'

/** Rows read at once: so few that a synchronous driver holds nobody up. */
const PAGE_SIZE = 1_000
/** Where rules are written without end, all of them are read at once after so many tries. */
const PAGED_TRIES = 3
const MAX_ROWS = 2_147_483_647
const BEFORE_ALL_IDS = Number.MIN_SAFE_INTEGER

type StoredRow = Omit<RuleRow, 'block'> & { readonly id: number; readonly block: boolean | number }

export interface LoadedRules {
  readonly rules: readonly Rule[]
  readonly rejected: readonly RejectedRow[]
  /** What became of each row, by its text. */
  readonly rows: ReadonlyMap<string, Rule | RejectedRow>
}

/**
 * Reads the active rules. A row that is wrong is left out and told about, and takes no other rule down. Many are read
 * a slice at a time, so that requests go on.
 *
 * @param previous answered again where the table still says the same, so that nobody compiles it twice; its rules are
 * used again for rows that did not change
 * @param onRows told when the table has answered; where there are many rows, with the first of them
 */
export async function loadActiveRules(
  database: Database,
  previous?: LoadedRules,
  onRows?: () => void,
): Promise<LoadedRules> {
  const found = await readRows(database, onRows)
  const slices = new Slices()
  const rows = new Map<string, Rule | RejectedRow>()
  let isSame = found.length === previous?.rows.size
  for (const row of found) {
    const text = JSON.stringify(row)
    const known = previous?.rows.get(text)
    isSame &&= known !== undefined
    rows.set(text, known ?? parsed({ ...row, block: Boolean(row.block) }))
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

/**
 * The active rules of one moment, among other work: read a page at a time, and again when somebody has written
 * meanwhile.
 */
async function readRows(database: Database, onRows: () => void = () => undefined): Promise<readonly StoredRow[]> {
  const first = await readPage(database, BEFORE_ALL_IDS, PAGE_SIZE)
  onRows()
  if (first.length < PAGE_SIZE) return first
  for (let tries = 0; tries < PAGED_TRIES; tries++) {
    const revision = await readRevision(database, 'rules')
    const rows = await readPages(database)
    if ((await readRevision(database, 'rules')) === revision) return rows
  }
  return readPage(database, BEFORE_ALL_IDS, MAX_ROWS)
}

/** Page by page: what is written meanwhile may be in it, or not. */
async function readPages(database: Database): Promise<StoredRow[]> {
  const rows: StoredRow[] = []
  for (;;) {
    const page = await readPage(database, rows.at(-1)?.id ?? BEFORE_ALL_IDS, PAGE_SIZE)
    if (page.length === 0) return rows
    rows.push(...page)
    await setImmediate()
  }
}

function readPage({ dialect, query }: Database, afterId: number, size: number): Promise<StoredRow[]> {
  return query(
    `SELECT id, name, path_pattern AS "pathPattern", method, rate, key, algorithm, block, priority
     FROM ${dialect.table('rate_limit_rule')} WHERE is_active AND id > $1 ORDER BY id LIMIT $2`,
    [afterId, size],
  )
}

function parsed(row: RuleRow): Rule | RejectedRow {
  try {
    return parseRule(row)
  } catch (error) {
    return { name: String(row.name), reason: messageOf(error) }
  }
}
