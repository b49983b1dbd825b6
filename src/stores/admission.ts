/**
 * Admission of checks that cost nothing when they are refused. The checks of a group have one limit and one cost, so
 * that the statement only decides their number, from the row that the upsert has locked. The columns `asked`, `cost`
 * and `admitted` carry that in and out of the statement.
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

/** Returns SQL for the number of checks that are admitted when `in_use` of `limit` is in use. */
export function admittedSql(limit: string): string {
  return `CASE WHEN in_use + excluded.cost > ${limit} THEN 0
      WHEN (${limit} - in_use) / excluded.cost < excluded.asked THEN (${limit} - in_use) / excluded.cost
      ELSE excluded.asked END`
}

/**
 * Returns SQL for `a * b / c` in whole numbers, where the product may exceed 2^63: `a` is split at 2^16, so that no
 * step exceeds 2^53. Takes columns below 2^31 (`a`), 2^35 (`b`, at most `c`) and 2^35 (`c`), from the table `rows`.
 *
 * @returns a subquery with all columns of `rows`, `quotient`, and `remainder`
 */
export function productSql(rows: string, a: string, b: string, c: string): string {
  return `(SELECT split.*, high * 65536 + rest / ${c} AS quotient, rest % ${c} AS remainder
    FROM (SELECT factors.*, (${a} / 65536 * ${b}) / ${c} AS high,
        (${a} / 65536 * ${b}) % ${c} * 65536 + ${a} % 65536 * ${b} AS rest
      FROM ${rows} AS factors) AS split) AS product`
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
