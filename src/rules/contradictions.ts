import type { FieldErrors } from '../errors.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { findMonthProblem, type Rate } from '../limiter/rate.js'

/** The valid fields of a rule that depend on each other; undefined where a field is wrong or absent. */
interface RelatedFields {
  readonly rate: Rate | undefined
  readonly algorithm: Algorithm | undefined
  readonly cost: number | undefined
  readonly startsAt: number | null | undefined
  readonly endsAt: number | null | undefined
}

/** Returns the errors of fields that are valid each, and contradict each other. */
export function contradictionsIn({ rate, algorithm, cost, startsAt, endsAt }: RelatedFields): FieldErrors {
  const errors: Record<string, string> = {}
  if (rate !== undefined && algorithm !== undefined) {
    const problem = findMonthProblem(algorithm, rate)
    if (problem !== undefined) errors.rate = problem
  }
  const most = rate === undefined ? Number.POSITIVE_INFINITY : leastCount(rate)
  if (cost !== undefined && cost > most) {
    errors.cost = `is ${cost}, more than the rate ever allows: give at most ${most}, or a rate with a higher count`
  }
  if (startsAt != null && endsAt != null && endsAt <= startsAt) {
    errors.endsAt = 'is not after startsAt: give a later moment, or null for no end'
  }
  return errors
}

/** Returns the smallest count of a rate above 0, which refuses everything on purpose. */
function leastCount(rate: Rate): number {
  return (rate.windows ?? [rate]).reduce(
    (least, { limit }) => (limit > 0 ? Math.min(least, limit) : least),
    Number.POSITIVE_INFINITY,
  )
}
