/** The active rules of a moment, split by group. */

import { groupBy } from '../ground/group-by.js'
import { memoize } from '../ground/remember.js'
import type { PathOptions } from './patterns/path-patterns.js'
import type { Rule } from './rule.js'
import { RuleSet } from './rule-set.js'

export interface RuleGroups {
  /** The rules of the group without a name. */
  readonly rules: RuleSet
  /** The rules of each other group, by its name: mostly none. */
  readonly groups: readonly RuleSet[]
  /** Whether any rule needs to know users. */
  readonly needUsers: boolean
}

const NO_GROUPS: readonly RuleSet[] = []

export function noRules(options: PathOptions): RuleGroups {
  return { rules: new RuleSet([], options), groups: NO_GROUPS, needUsers: false }
}

/**
 * Compiles the rule set of each group, without blocking the event loop.
 *
 * @param previous of the same router: compiled patterns are used again
 */
export async function compileGroups(
  rules: readonly Rule[],
  options: PathOptions,
  previous: RuleGroups,
): Promise<RuleGroups> {
  const byGroup = groupBy(rules, ({ group }) => group)
  const before = new Map(previous.groups.map((set) => [set.rules[0]?.group, set]))
  const unnamed = await RuleSet.compile(byGroup.get('') ?? [], options, previous.rules)
  const groups: RuleSet[] = []
  for (const name of [...byGroup.keys()].filter((each) => each !== '').sort()) {
    groups.push(await RuleSet.compile(byGroup.get(name) ?? [], options, before.get(name)))
  }
  return {
    rules: unnamed,
    groups: groups.length === 0 ? NO_GROUPS : groups,
    needUsers: [unnamed, ...groups].some(({ needUsers }) => needUsers),
  }
}

/** Returns the rules of all groups: by group, and in each in the order in which they are tried. */
export function allRules({ rules, groups }: Pick<RuleGroups, 'rules' | 'groups'>): readonly Rule[] {
  return groups.length === 0 ? rules.rules : [rules, ...groups].flatMap((set) => set.rules)
}

/** Returns the rules of all groups by their names. */
export const rulesByName = memoize((groups: Pick<RuleGroups, 'rules' | 'groups'>): ReadonlyMap<string, Rule> => {
  return new Map(allRules(groups).map((rule) => [rule.name, rule]))
})

/** Returns those that are in force at a moment. */
export function rulesInForce({ rules, groups }: RuleGroups, nowMs: number): readonly Rule[] {
  return groups.length === 0 ? rules.inForce(nowMs) : [rules, ...groups].flatMap((set) => set.inForce(nowMs))
}
