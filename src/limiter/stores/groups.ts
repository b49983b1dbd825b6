import {
  type Algorithm,
  type Check,
  type Checked,
  countsRefused,
  type Decision,
  leastLimit,
  neededFor,
  samePeriods,
  samePolicy,
} from '../algorithm.js'

/** The checks on one counter that one statement or script takes together, in the order of their arrival. */
export interface CheckGroup<Grouped extends Check = Check> {
  readonly first: Grouped
  readonly checks: Grouped[]
  /** The positions of their decisions in the batch. */
  readonly indexes: number[]
}

/** Returns whether a check can join the group of `first`, a check on the same counter. */
export type Joins = (first: Check, next: Check) => boolean

interface Grouping {
  /** Returns the store's name for the counter of a key. */
  readonly storedKey: (key: string) => string
  readonly counters: Readonly<Record<Algorithm, { readonly joins: Joins }>>
}

/**
 * Groups the checks at `indexes` by algorithm and counter, since one statement can change a counter only once. A check
 * that cannot join those before it (a rule was just edited, or costs differ) is left for later, as are all later checks
 * on its counter.
 */
export function groupChecks<Grouped extends Check>(
  checks: readonly Grouped[],
  indexes: readonly number[],
  { storedKey, counters }: Grouping,
) {
  const byAlgorithm = new Map<Algorithm, Map<string, CheckGroup<Grouped>>>()
  const closed = new Set<CheckGroup<Grouped>>()
  const left: number[] = []
  for (const index of indexes) {
    const check = checks[index]
    if (check === undefined) continue
    const { algorithm } = check.policy
    let groups = byAlgorithm.get(algorithm)
    if (groups === undefined) {
      groups = new Map()
      byAlgorithm.set(algorithm, groups)
    }
    const key = storedKey(check.key)
    const group = groups.get(key)
    if (group === undefined) {
      groups.set(key, { first: check, checks: [check], indexes: [index] })
    } else if (!closed.has(group) && counters[algorithm].joins(group.first, check)) {
      group.checks.push(check)
      group.indexes.push(index)
    } else {
      closed.add(group)
      left.push(index)
    }
  }
  return { byAlgorithm, left }
}

const TOGETHER = { joins: () => true }
/** Settlements of one counter are taken together. */
export const SETTLING = {
  fixed_window: TOGETHER,
  sliding_window: TOGETHER,
  token_bucket: TOGETHER,
  leaky_bucket: TOGETHER,
  concurrency: TOGETHER,
}

/** Puts the decisions on a group at their positions in the batch. */
export function assignDecisions({ indexes }: CheckGroup, answered: readonly Decision[], decisions: Decision[]): void {
  for (const [index, decision] of answered.entries()) {
    const position = indexes[index]
    if (position !== undefined) decisions[position] = decision
  }
}

/** Returns the cost of a group where refused checks count too. */
export function totalCost({ checks }: CheckGroup): number {
  return checks.reduce((sum, { cost }) => sum + cost, 0)
}

/** The cost is above every limit; a higher one is refused as well, and this one is safe in calculations. */
export const MAX_COST = 2_147_483_648

/** Returns whether a check counts in any case: a charge, or one of a fixed window that does not reserve. */
function countsAlways({ policy, charges }: Check): boolean {
  return charges === true || countsRefused(policy)
}

/** Returns whether one statement takes two checks on a counter of requests over time. */
export function joinsRate(first: Check, next: Check): boolean {
  const always = countsAlways(first)
  if (always !== countsAlways(next)) return false
  if (!always) return sameLimitAndCost(first, next)
  // The limit of a bucket is the one at which it drains.
  const { policy } = first
  return policy.algorithm === 'fixed_window' ? samePeriods(policy, next.policy) : samePolicy(policy, next.policy)
}

export function sameLimitAndCost({ policy: a, cost }: Check, { policy: b, cost: nextCost }: Check): boolean {
  return cost === nextCost && samePolicy(a, b)
}

/**
 * Returns the parameters of a statement: how many checks ask for admission, the cost of each, and how many a new
 * counter admits. Checks of cost 0 ask for none. Where all count in any case the numbers are -1, and the cost is that of all.
 */
export function toAdmission(group: CheckGroup) {
  const { first, checks } = group
  if (countsAlways(first)) {
    return { checkCount: -1, cost: totalCost(group), admitted: -1 }
  }
  const checkCount = first.cost === 0 ? 0 : checks.length
  const cost = Math.min(neededFor(first.cost), MAX_COST)
  return { checkCount, cost, admitted: Math.min(checkCount, Math.floor(leastLimit(first.policy) / cost)) }
}

/**
 * Decides a group by the pure algorithm, from the counter as the statement found it when it locked the row. The
 * statement and the algorithm decide alike.
 */
export function replayChecks<Counter>(
  check: (
    counter: Counter | undefined,
    policy: Check['policy'],
    cost: number,
    nowMs: number,
    charges?: boolean,
  ) => Checked<Counter>,
  locked: Counter | undefined,
  { checks }: CheckGroup,
  nowMs: number,
): Decision[] {
  let counter = locked
  return checks.map(({ policy, cost, charges }) => {
    const checked = check(counter, policy, cost, nowMs, charges)
    counter = checked.counter
    return checked.decision
  })
}
