import type { Database } from '../db/database.js'
import { messageOf } from '../errors.js'
import { parseRule, type Rule, type RuleRow } from './rule.js'

export interface LoadedRules {
  readonly rules: readonly Rule[]
  /** Rows that raw SQL wrote past the validation, and what is wrong with each. */
  readonly rejected: readonly { readonly name: string; readonly reason: string }[]
  /** The rows they were read from. */
  readonly source: string
}

/**
 * Reads the active rules. A row that is wrong is left out and told about, and takes no other rule down.
 *
 * @param previous answered again where the table still says the same, so that nobody compiles it twice
 */
export async function loadActiveRules(database: Database, previous?: LoadedRules): Promise<LoadedRules> {
  const rows = await database.query<Omit<RuleRow, 'block'> & { block: boolean | number }>(
    `SELECT name, path_pattern AS "pathPattern", method, rate, key, algorithm, block, priority
     FROM ${database.dialect.table('rate_limit_rule')} WHERE is_active ORDER BY id`,
  )
  const source = JSON.stringify(rows)
  if (previous?.source === source) return previous
  const rules: Rule[] = []
  const rejected: { name: string; reason: string }[] = []
  for (const row of rows) {
    try {
      rules.push(parseRule({ ...row, block: Boolean(row.block) }))
    } catch (error) {
      rejected.push({ name: String(row.name), reason: messageOf(error) })
    }
  }
  return { rules, rejected, source }
}
