import type { Database } from '../../../database/database.js'
import { RULES } from '../../../rules/rule.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { ruleHref } from '../links.js'

/** The pages of rules, by their names; other policies have none. */
export type RulePageLinks = ReadonlyMap<string, string>

/** Finds the pages of the policies that are rules now. */
export async function findRulePages({ dialect, query }: Database, policies: readonly string[]): Promise<RulePageLinks> {
  if (policies.length === 0) return new Map()
  const rules = query<{ name: string }>(
    `SELECT name FROM ${dialect.table(RULES.table)} WHERE ${dialect.isOneOf('name', '$1', 'text')}`,
    [JSON.stringify(policies)],
  )
  return new Map((await fromDatabase(rules)).map(({ name }) => [name, ruleHref(name)]))
}
