import type { Offender } from '../alerts/offender.js'
import { rankOffenders } from './offender-ranking.js'
import { checkAtLeastOne, checkDays, type RankingOptions, type Report, windowFor } from './window.js'

/** Reports the keys with the most refused requests. */
export function topOffenders({ days = 7, limit = 100 }: RankingOptions = {}): Report<readonly Offender[]> {
  checkDays(days)
  checkAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, windowFor(days, snapshot.nowMs), { limit, atLeast: 1 })
}
