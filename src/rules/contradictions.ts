import type { ClientKind } from '../clients/client-kind.js'
import type { FieldErrors } from '../ground/errors.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { findRateProblem, highestCost, type Rate } from '../limiter/rate.js'
import { contradictionsInUnit } from '../limiter/unit-contradictions.js'
import type { CountedStatuses } from './counted-statuses.js'
import { findNoticeProblem } from './notice-at.js'

/** The valid fields of a rule that depend on each other; undefined where a field is wrong or absent. */
interface RelatedFields {
  readonly rate: Rate | undefined
  readonly algorithm: Algorithm | undefined
  readonly key: ClientKind | undefined
  /** The statuses that count; null where every request counts. */
  readonly counts: CountedStatuses | null | undefined
  readonly cost: number | undefined
  readonly unit: string | undefined
  readonly reserve: number | undefined
  /** Percentages; null for none. */
  readonly noticeAt: readonly number[] | null | undefined
  readonly banAfter: number | undefined
  /** The time of a ban in milliseconds; null for an empty text. */
  readonly banFor: number | null | undefined
  readonly startsAt: number | null | undefined
  readonly endsAt: number | null | undefined
}

/** Returns the errors of fields that are valid each, and contradict each other. */
export function contradictionsIn(fields: RelatedFields): FieldErrors {
  const { rate, algorithm, counts, cost, noticeAt, startsAt, endsAt } = fields
  const errors: Record<string, string> = { ...contradictionsInBan(fields), ...contradictionsInUnit(fields) }
  if (rate !== undefined && algorithm !== undefined) {
    const problem = findRateProblem(algorithm, rate)
    if (problem !== undefined) errors.rate = problem
  }
  if (algorithm !== undefined && counts !== undefined) {
    const problem = findCountsProblem(algorithm, counts)
    if (problem !== undefined) errors.counts = problem
  }
  if (algorithm !== undefined && noticeAt !== undefined) {
    const problem = findNoticeProblem(algorithm, noticeAt)
    if (problem !== undefined) errors.noticeAt = problem
  }
  const most = rate === undefined ? Number.POSITIVE_INFINITY : highestCost(rate)
  if (cost !== undefined && cost > most) {
    errors.cost = `is ${cost}, more than the rate ever allows: give at most ${most}, or a rate with a higher count`
  }
  if (startsAt != null && endsAt != null && endsAt <= startsAt) {
    errors.endsAt = 'is not after startsAt: give a later moment, or null for no end'
  }
  return errors
}

/** A ban is for an address or a user: a client of several kinds, or of another one, is no client of an override. */
function contradictionsInBan({ key, banAfter, banFor }: RelatedFields): FieldErrors {
  if (banAfter === undefined) return {}
  if (banAfter === 0) {
    return banFor == null
      ? {}
      : { banAfter: 'is 0, which bans nobody: give a number of refusals, or leave banFor empty' }
  }
  if (key !== undefined && key.kind !== 'ip' && key.kind !== 'user') {
    return {
      banAfter: `is ${banAfter}, but a ban is for an address or a user: give the key ip or user, or 0 for no ban`,
    }
  }
  return banFor === null ? { banFor: 'is empty: give a length such as 15m, 2h or 7d, or a banAfter of 0' } : {}
}

/** Returns why a limit cannot count responses: by then a request is no longer in progress. */
export function findCountsProblem(algorithm: Algorithm, counts: CountedStatuses | null): string | undefined {
  if (algorithm !== 'concurrency' || counts === null) return undefined
  return 'The algorithm concurrency counts requests while they are in progress: give requests, or another algorithm'
}
