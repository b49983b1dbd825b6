import type { Offender } from '../alerts/offender.js'
import type { Database } from '../db/database.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { rankOffenders } from './offender-ranking.js'
import {
  closedDaysFor,
  createReportRunner,
  type RankingOptions,
  type Report,
  validateAtLeastOne,
  validateDays,
  windowFor,
} from './window.js'

/** Reports the keys with the most refused requests. */
export function topOffenders({ days = 7, limit = 100 }: RankingOptions = {}): Report<readonly Offender[]> {
  validateDays(days)
  validateAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, windowFor(days, snapshot.nowMs), { limit, atLeast: 1 })
}

/** Prepares the reports of the windows that were asked for in the last day, where they have reached another hour. */
export function prepareTopOffenders(database: Database, clock: Clock): Promise<void> {
  const read = createReportRunner(database, clock)
  return closedDaysFor(database).refresh(clock.now(), (windowMs) =>
    read(topOffenders({ days: windowMs / DAY_MS, limit: 1 })),
  )
}
