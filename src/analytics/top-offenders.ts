import type { Offender } from '../alerts/offender.js'
import type { Database } from '../db/database.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { rankOffenders } from './offender-ranking.js'
import {
  checkAtLeastOne,
  checkDays,
  closedLeadersOf,
  type RankingOptions,
  type Report,
  reportsOf,
  windowOf,
} from './window.js'

/** Reports the keys with the most refused requests. */
export function topOffenders({ days = 7, limit = 100 }: RankingOptions = {}): Report<readonly Offender[]> {
  checkDays(days)
  checkAtLeastOne('limit', limit)
  return (snapshot) => rankOffenders(snapshot, windowOf(days, snapshot.nowMs), { limit, atLeast: 1 })
}

/** Prepares the reports of the windows that were asked for in the last day, where they have reached another hour. */
export function prepareTopOffenders(database: Database, clock: Clock): Promise<void> {
  const read = reportsOf(database, clock)
  return closedLeadersOf(database).refresh(clock.now(), (windowMs) =>
    read(topOffenders({ days: windowMs / DAY_MS, limit: 1 })),
  )
}
