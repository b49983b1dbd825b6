/**
 * The rules that can count a request which this app does not answer. What runs at a time and what is answered is known
 * elsewhere: rules that count it are left out.
 */
import { isRate } from '../limiter/algorithm.js'
import type { PathOptions } from '../rules/patterns/path-patterns.js'
import type { Rule } from '../rules/rule.js'
import { allRules, compileGroups, type RuleGroups } from '../rules/rule-groups.js'
import type { Snapshot } from '../rules/snapshot/current-snapshot.js'
import type { CheckedRequest, InForce } from './checked-request.js'
import type { SeveralLimitsDependencies } from './several-limits.js'

/** What is in force without the rules that are left out. */
interface Countable extends InForce {
  readonly all: RuleGroups
  readonly leftOut: RuleGroups
}

function isCountable({ policy, counts }: Rule): boolean {
  return isRate(policy) && counts === null
}

/** Creates the function that leaves rules out of a snapshot, once for each. */
export function createCountableRules(options: PathOptions): (snapshot: Snapshot) => InForce | Promise<InForce> {
  let latest: { readonly snapshot: Snapshot; readonly inForce: InForce | Promise<InForce> } | undefined

  async function leaveOut(snapshot: Snapshot, rules: readonly Rule[]): Promise<InForce> {
    const kept = await compileGroups(rules.filter(isCountable), options, snapshot)
    const uncountable = rules.filter((rule) => !isCountable(rule))
    const leftOut = await compileGroups(uncountable, options, snapshot)
    const { overrides, sources } = snapshot
    const inForce: Countable = { ...kept, overrides, sources, all: snapshot, leftOut }
    if (latest?.snapshot === snapshot) latest = { snapshot, inForce }
    return inForce
  }

  return function countableRules(snapshot) {
    if (latest?.snapshot !== snapshot) {
      const rules = allRules(snapshot)
      latest = { snapshot, inForce: rules.every(isCountable) ? snapshot : leaveOut(snapshot, rules) }
    }
    return latest.inForce
  }
}

/** Returns the names of the rules that would have been among the limits of a request, had they not been left out. */
export function rulesLeftOut(
  { chooseRule }: Pick<SeveralLimitsDependencies, 'chooseRule'>,
  checked: CheckedRequest,
): readonly string[] {
  const { inForce, override, limit } = checked
  if (checked.isExempt || limit.isDenial) return []
  const ofOverride = override && typeof override.effect === 'object' ? override.effect : undefined
  const isLimited = ofOverride !== undefined && isRate(ofOverride)
  const names = ofOverride === undefined || isLimited ? [] : ['override']
  if (!isSplit(inForce)) return names
  const { all, leftOut } = inForce
  const applied = [checked, ...(checked.overruled ? [checked.overruled] : []), ...(checked.applied ?? [])]
  const deciding = new Set(applied.map((each) => each.limit.ruleName))
  for (const set of isLimited ? leftOut.groups : [leftOut.rules, ...leftOut.groups]) {
    let rule = set.match(checked.path, checked.request.method, checked.nowMs, checked)
    if (rule?.condition !== undefined) rule = chooseRule(checked, set)
    if (!rule) continue
    const { group } = rule
    const first = allRules(all).find((each) => each.group === group && (each === rule || deciding.has(each.name)))
    if (first === rule) names.push(rule.name)
  }
  return names
}

function isSplit(inForce: InForce): inForce is Countable {
  return 'leftOut' in inForce
}
