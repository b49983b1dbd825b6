import type { Offender } from '../alerts/offender.js'
import { rankOffenders } from './ranking.js'
import { type RankingOptions, type Report, validateAtLeastOne, validateDays, windowFor } from './window.js'

/** Reports the keys with the most refused requests. */
export function topOffenders({ days = 7, limit = 100 }: RankingOptions = {}): Report<readonly Offender[]> {
  validateDays(days)
  validateAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, windowFor(days, snapshot.nowMs), { limit, atLeast: 1 })
}
