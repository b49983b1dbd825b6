import type { FieldErrors } from '../errors.js'
import type { Rate } from '../limiter/rate.js'

/** The valid fields of a rule that depend on each other; undefined where a field is wrong or absent. */
interface RelatedFields {
  readonly rate: Rate | undefined
  readonly cost: number | undefined
  readonly startsAt: number | null | undefined
  readonly endsAt: number | null | undefined
}

/** Returns the errors of fields that are valid each, and contradict each other. */
export function contradictionsIn({ rate, cost, startsAt, endsAt }: RelatedFields): FieldErrors {
  const errors: Record<string, string> = {}
  if (rate !== undefined && cost !== undefined && rate.limit > 0 && cost > rate.limit) {
    errors.cost = `is ${cost}, more than the rate ever allows: give at most ${rate.limit}, or a rate with a higher count`
  }
  if (startsAt != null && endsAt != null && endsAt <= startsAt) {
    errors.endsAt = 'is not after startsAt: give a later moment, or null for no end'
  }
  return errors
}
