import type { Database } from '../db/database.js'
import { messageOf } from '../errors.js'
import { parseRule, type Rule, type RuleRow } from './rule.js'
import { Slices } from './slices.js'

export interface RejectedRule {
  readonly name: string
  readonly reason: string
}

export interface LoadedRules {
  readonly rules: readonly Rule[]
  /** Rows that raw SQL wrote past the validation, and what is wrong with each. */
  readonly rejected: readonly RejectedRule[]
  /** What became of each row, by its text. */
  readonly rows: ReadonlyMap<string, Rule | RejectedRule>
}

/**
 * Reads the active rules. A row that is wrong is left out and told about, and takes no other rule down. Many are read
 * a slice at a time, so that requests go on.
 *
 * @param previous answered again where the table still says the same, so that nobody compiles it twice; its rules are
 * used again for rows that did not change
 * @param onRows told when the table has answered
 */
export async function loadActiveRules(
  database: Database,
  previous?: LoadedRules,
  onRows?: () => void,
): Promise<LoadedRules> {
  const found = await database.query<Omit<RuleRow, 'block'> & { block: boolean | number }>(
    `SELECT name, path_pattern AS "pathPattern", method, rate, key, algorithm, block, priority
     FROM ${database.dialect.table('rate_limit_rule')} WHERE is_active ORDER BY id`,
  )
  onRows?.()
  const slices = new Slices()
  const rows = new Map<string, Rule | RejectedRule>()
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
  const rejected: RejectedRule[] = []
  for (const row of rows.values()) {
    if ('reason' in row) rejected.push(row)
    else rules.push(row)
  }
  return { rules, rejected, rows }
}

function parsed(row: RuleRow): Rule | RejectedRule {
  try {
    return parseRule(row)
  } catch (error) {
    return { name: String(row.name), reason: messageOf(error) }
  }
}
