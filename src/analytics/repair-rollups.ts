import type { Database } from '../db/database.js'
import { ask, type Dialect, type Steps } from '../db/dialect.js'
import { Parameters } from './filter.js'
import { type Period, partsOf, SPANS } from './period.js'
import { eventCounts, SUMS } from './traffic.js'
import { duringPeriod } from './window.js'

/** How many combinations of path, rule and method a bucket keeps apart, as the migrations have it. */
const MAX_COMBINATIONS = 256

/**
 * Makes the rollups of a period of whole days anew from its events; nobody else writes events meanwhile. So they are
 * counted at once, which takes a fraction of what the triggers would for as many.
 */
export function repairRollups(database: Database, period: Period): Promise<void> {
  return database.locked(['rate_limit_event'], () => repairSteps(database.dialect, period))
}

function* repairSteps(dialect: Dialect, period: Period): Steps<void> {
  const { from, to } = partsOf(period).hours
  yield* ask(dialect.foldRollups)
  for (const table of ['rate_limit_traffic_rollup', 'rate_limit_blocked_rollup']) {
    for (const span of SPANS) {
      const buckets = [from / span, Math.floor(to / span)]
      yield* ask(`DELETE FROM ${dialect.table(table)} WHERE span = ${span} AND bucket >= $1 AND bucket < $2`, buckets)
    }
  }
  for (const span of SPANS) {
    yield* repairTraffic(dialect, period, span)
    yield* repairBlocked(dialect, period, span)
  }
  yield* repairTrend(dialect, period)
}

/** As the triggers have it: the busiest combinations of path, rule and method keep their paths. */
function* repairTraffic(dialect: Dialect, period: Period, span: number): Steps<void> {
  const parameters = new Parameters()
  yield* ask(
    `INSERT INTO ${dialect.table('rate_limit_traffic_rollup')}
       (span, bucket, path, rule_name, method, total, blocked, would_block)
     SELECT ${span}, bucket, kept_path, rule_name, method, ${SUMS} FROM (
       SELECT placed.*, CASE WHEN place <= ${MAX_COMBINATIONS} THEN path ELSE '' END AS kept_path FROM (
         SELECT counted.*, ROW_NUMBER() OVER (PARTITION BY bucket ORDER BY total DESC, path, rule_name, method) AS place
         FROM (
           SELECT bucket, path, rule_name, method, ${SUMS} FROM (
             SELECT ${bucketOf(dialect, span)} AS bucket, path, rule_name, method, ${eventCounts()}
             FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, period, parameters)}
           ) AS events GROUP BY bucket, path, rule_name, method
         ) AS counted
       ) AS placed
     ) AS kept GROUP BY bucket, kept_path, rule_name, method`,
    parameters.values,
  )
}

function* repairBlocked(dialect: Dialect, period: Period, span: number): Steps<void> {
  const parameters = new Parameters()
  yield* ask(
    `INSERT INTO ${dialect.table('rate_limit_blocked_rollup')} (span, bucket, key, blocked)
     SELECT ${span}, bucket, key, COUNT(*) FROM (
       SELECT ${bucketOf(dialect, span)} AS bucket, key FROM ${dialect.table('rate_limit_event')}
       WHERE allowed = false AND ${duringPeriod(dialect, period, parameters)}
     ) AS events GROUP BY bucket, key`,
    parameters.values,
  )
}

function bucketOf(dialect: Dialect, span: number): string {
  return `(${dialect.hourOf('"timestamp"')}) / ${span}`
}

function* repairTrend(dialect: Dialect, period: Period): Steps<void> {
  const parameters = new Parameters()
  const larger = ['total', 'blocked', 'would_block'].map(
    (count) => `${count} = CASE WHEN trend.${count} < excluded.${count} THEN excluded.${count} ELSE trend.${count} END`,
  )
  yield* ask(
    `INSERT INTO ${dialect.table('rate_limit_trend')} AS trend (hour, total, blocked, would_block)
     SELECT hour, ${SUMS} FROM (
       SELECT ${dialect.hourOf('"timestamp"')} AS hour, ${eventCounts()} FROM ${dialect.table('rate_limit_event')}
       WHERE ${duringPeriod(dialect, period, parameters)}
     ) AS events GROUP BY hour
     ON CONFLICT (hour) DO UPDATE SET ${larger.join(', ')}`,
    parameters.values,
  )
}
