/**
 * Admission of checks that cost nothing when they are refused. The checks of a group have one limit and one cost, so
 * that the statement only decides their number, from the row that the upsert has locked.
 */
import {
  type Check,
  type Checked,
  type Decision,
  leastLimit,
  neededFor,
  samePeriods,
  samePolicy,
} from '../limiter/algorithm.js'
import type { CheckGroup } from './groups.js'

/** Above every limit; a higher cost is refused as well, and this one is safe in calculations. */
export const MAX_COST = 2_147_483_648

export function samePeriod({ policy: a }: Check, { policy: b }: Check): boolean {
  return samePeriods(a, b)
}

export function sameLimitAndCost({ policy: a, cost }: Check, { policy: b, cost: nextCost }: Check): boolean {
  return cost === nextCost && samePolicy(a, b)
}

/**
 * Returns the parameters of a statement: how many checks ask for admission, the cost of each, and how many a new
 * counter admits. Checks of cost 0 ask for none.
 */
export function toAdmission({ first, checks }: CheckGroup) {
  const asked = first.cost === 0 ? 0 : checks.length
  const cost = Math.min(neededFor(first.cost), MAX_COST)
  return { asked, cost, admitted: Math.min(asked, Math.floor(leastLimit(first.policy) / cost)) }
}

/**
 * Decides a group by the pure algorithm, from the counter as the statement found it when it locked the row. The
 * statement and the algorithm decide alike.
 */
export function replayChecks<Counter>(
  check: (counter: Counter | undefined, policy: Check['policy'], cost: number, nowMs: number) => Checked<Counter>,
  locked: Counter | undefined,
  { checks }: CheckGroup,
  nowMs: number,
): Decision[] {
  let counter = locked
  return checks.map(({ policy, cost }) => {
    const checked = check(counter, policy, cost, nowMs)
    counter = checked.counter
    return checked.decision
  })
}
