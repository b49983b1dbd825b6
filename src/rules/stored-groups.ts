/** The groups of all stored rules, active or not, of which a change must not make too many. */

import { type Dialect, runStatement, type SqlWork } from '../database/dialect.js'
import { RuleValidationError } from '../ground/errors.js'
import { findExtraGroup } from './group.js'

const TABLE = 'rate_limit_rule'

/** Begins a change of rules; the returned check throws a RuleValidationError where it leaves a group too many. */
export function* watchGroups(dialect: Dialect): SqlWork<() => SqlWork<void>> {
  const before = yield* readGroups(dialect)
  return function* check() {
    refuseExtraGroup(before, yield* readGroups(dialect))
  }
}

/** @throws RuleValidationError where a group that is not stored yet is one too many */
export function refuseExtraGroup(before: readonly string[], after: Iterable<string>): void {
  const extra = findExtraGroup(before, after)
  if (extra !== undefined) throw new RuleValidationError({ group: extra.problem })
}

function* readGroups(dialect: Dialect): SqlWork<string[]> {
  const rows = yield* runStatement<{ group: string }>(
    `SELECT DISTINCT group_name AS "group" FROM ${dialect.table(TABLE)}`,
  )
  return rows.map(({ group }) => String(group))
}
