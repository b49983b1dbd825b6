import type { Database } from '../db/database.js'
import { ask, type Dialect, type Steps } from '../db/dialect.js'
import { Parameters } from './filter.js'
import { type Period, partsOf } from './period.js'
import { EVENT_COUNTS } from './traffic.js'
import { duringPeriod } from './window.js'

/** Makes the rollups of a period of whole days anew from its events; nobody else writes events meanwhile. */
export function repairRollups(database: Database, period: Period): Promise<void> {
  return database.locked(['rate_limit_event'], () => repairSteps(database.dialect, period))
}

function* repairSteps(dialect: Dialect, period: Period): Steps<void> {
  const { from, to } = partsOf(period).hours
  yield* ask(dialect.foldRollups)
  for (const table of ['rate_limit_traffic_rollup', 'rate_limit_blocked_rollup']) {
    for (const span of [1, 24]) {
      const buckets = [from / span, Math.floor(to / span)]
      yield* ask(`DELETE FROM ${dialect.table(table)} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`, buckets)
    }
  }
  yield* repairTrend(dialect, period)
  // Not for the trend, which has them.
  const parameters = new Parameters()
  yield* ask(
    `INSERT INTO ${dialect.table('rate_limit_rollup_delta')}
       (${dialect.deltaMoment.column}, key, path, rule_name, method, total, blocked, would_block, is_deletion)
     SELECT ${dialect.deltaMoment.from('"timestamp"')}, CASE WHEN allowed = false THEN key END, path, rule_name, method,
       ${EVENT_COUNTS}, true
     FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, period, parameters)}`,
    parameters.values,
  )
  yield* ask(dialect.foldRollups)
}

function* repairTrend(dialect: Dialect, period: Period): Steps<void> {
  const parameters = new Parameters()
  const larger = ['total', 'blocked', 'would_block'].map(
    (count) => `${count} = CASE WHEN trend.${count} < excluded.${count} THEN excluded.${count} ELSE trend.${count} END`,
  )
  yield* ask(
    `INSERT INTO ${dialect.table('rate_limit_trend')} AS trend (hour, total, blocked, would_block)
     SELECT hour, SUM(total), SUM(blocked), SUM(would_block) FROM (
       SELECT ${dialect.hourOf('"timestamp"')} AS hour, ${EVENT_COUNTS} FROM ${dialect.table('rate_limit_event')}
       WHERE ${duringPeriod(dialect, period, parameters)}
     ) AS events GROUP BY hour
     ON CONFLICT (hour) DO UPDATE SET ${larger.join(', ')}`,
    parameters.values,
  )
}
