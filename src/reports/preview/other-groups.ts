import { parseAppliedRules } from '../../log/applied-rules.js'
import type { Rule } from '../../rules/rule.js'
import type { ReplayDependencies } from './replay.js'

/**
 * Creates the function that returns whether another group than the rule's refused a request. Limits that are no active
 * rule stand for the group without a name.
 *
 * @param active the rules of now, since the log has no groups
 */
export function createRefusedByOthers(rule: Rule, active: readonly Rule[]): ReplayDependencies['isRefusedByOthers'] {
  const groups = new Map([...active, rule].map(({ name, group }) => [name, group]))
  return function isRefusedByOthers({ rules }) {
    const refusing = parseAppliedRules(rules).filter(({ isRefused }) => isRefused)
    return (refusing.length === 0 ? [''] : refusing.map(({ name }) => groups.get(name) ?? '')).some(
      (group) => group !== rule.group,
    )
  }
}
