import type { Offender } from '../alerts/offender.js'
import { rankOffenders } from './ranking.js'
import { type RankingOptions, type Report, validateAtLeastOne, validateDays, windowFor } from './window.js'

export interface AlertableOffendersOptions extends RankingOptions {
  /** The number of refused requests that makes an offender: a whole number, 1 or more. */
  readonly threshold: number
}

/** Reports the keys that were refused at least `threshold` times. */
export function alertableOffenders({
  threshold,
  days = 1,
  limit = 100,
}: AlertableOffendersOptions): Report<readonly Offender[]> {
  validateAtLeastOne('threshold', threshold)
  validateDays(days)
  validateAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, windowFor(days, snapshot.nowMs), { limit, atLeast: threshold })
}
