import type { Database } from '../database/database.js'
import { type Clock, DAY_MS } from '../ground/time/clock.js'
import { readSums } from '../log/rollups/sums.js'
import { topOffenders } from './ranking.js'
import { closedHourCacheFor, createReportRunner } from './report.js'
import { topClients } from './top-clients.js'

/**
 * Prepares the rankings of the windows that were asked for in the last day, where they have reached another hour, or a
 * past one has changed.
 */
export async function prepareRankings(database: Database, clock: Clock): Promise<void> {
  const read = createReportRunner(database, clock)
  const nowMs = clock.now()
  const { closedVersion } = await readSums(database.query, database.dialect, nowMs)
  await closedHourCacheFor(database).refresh({ nowMs, version: closedVersion }, (ranking, windowMs) => {
    const options = { days: windowMs / DAY_MS, limit: 1 }
    return ranking === 'offenders' ? read(topOffenders(options)) : read(topClients({ ...options, by: ranking }))
  })
}
