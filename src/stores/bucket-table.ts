import type { Dialect } from '../db/dialect.js'
import type { BucketCounter } from '../limiter/bucket.js'
import { checkLeakyBucket } from '../limiter/leaky-bucket.js'
import { checkTokenBucket } from '../limiter/token-bucket.js'
import { admittedSql, productSql, replayChecks, sameLimitAndCost, toAdmission } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'

interface BucketRow extends BucketCounter {
  readonly key: string
  readonly cost: number
  readonly admitted: number
}

export function tokenBucketTable(dialect: Dialect): CounterTable {
  return bucketTable(dialect, 'rate_limit_token_bucket', checkTokenBucket)
}

export function leakyBucketTable(dialect: Dialect): CounterTable {
  return bucketTable(dialect, 'rate_limit_leaky_bucket', checkLeakyBucket)
}

function bucketTable(dialect: Dialect, name: string, checkBucket: typeof checkTokenBucket): CounterTable {
  return defineCounterTable<BucketRow>({
    name,
    sql: advanceSql(dialect, name),
    settleSql: settleSql(dialect, name),
    joins: sameLimitAndCost,
    asked(group) {
      const { limit, periodMs } = group.first.policy
      const { asked, cost, admitted } = toAdmission(group)
      return [periodMs, limit, admitted * cost, asked, cost, admitted]
    },
    answer({ periodMs, drainLimit, used, fraction, checkedMs, cost, admitted }, group, nowMs) {
      const locked = { periodMs, drainLimit, used: used - admitted * cost, fraction, checkedMs }
      return replayChecks(checkBucket, locked, group, nowMs)
    },
  })
}

/** Returns SQL with the rules of `checkBucket`, for many counters at once. */
function advanceSql(dialect: Dialect, name: string): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const expires = (checked: string, period: string) => dialect.fromMs(`${checked} + ${period}`)
  const now = dialect.fromMs('$2')
  const goesOn = 'c.period_ms = excluded.period_ms'
  const isLater = 'excluded.checked_ms > c.checked_ms'
  const elapsed = 'excluded.checked_ms - c.checked_ms'
  const aged = `(SELECT excluded.period_ms AS period,
        CASE WHEN ${goesOn} AND NOT ${isLater} THEN c.checked_ms ELSE excluded.checked_ms END AS checked,
        CASE WHEN ${goesOn} THEN c.drain_limit ELSE excluded.drain_limit END AS drain,
        CASE WHEN ${goesOn} THEN c.used ELSE 0 END AS had,
        CASE WHEN ${goesOn} THEN c.fraction ELSE 0 END AS had_fraction,
        CASE WHEN NOT (${goesOn} AND ${isLater}) THEN 0 WHEN ${elapsed} < c.period_ms THEN ${elapsed}
          ELSE c.period_ms END AS elapsed)`
  const drained = `(SELECT product.*, had_fraction - remainder AS parts,
        had - quotient - CASE WHEN had_fraction < remainder THEN 1 ELSE 0 END AS wholes
      FROM ${productSql(aged, 'drain', 'elapsed', 'period')})`
  const left = `(SELECT drained.*, CASE WHEN wholes < 0 THEN 0 ELSE wholes END AS whole,
        CASE WHEN wholes < 0 THEN 0 WHEN parts < 0 THEN parts + period ELSE parts END AS part
      FROM ${drained} AS drained)`
  const used = `(SELECT leftover.*, whole + CASE WHEN part > 0 THEN 1 ELSE 0 END AS in_use FROM ${left} AS leftover)`
  return `INSERT INTO ${dialect.table(name)} AS c
      (key, period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(3)}, 0, ${dialect.whole('$2')}, ${field(4)},
      ${field(5)}, ${field(6)}, ${expires(dialect.whole('$2'), field(1))}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, updated_at) =
      (SELECT period, CASE WHEN granted > 0 OR drain < excluded.drain_limit THEN excluded.drain_limit ELSE drain END,
        whole + granted * excluded.cost, part, checked, excluded.asked, excluded.cost, granted,
        ${expires('checked', 'period')}, excluded.updated_at
       FROM (SELECT used.*, ${admittedSql('excluded.drain_limit')} AS granted FROM ${used} AS used) AS decided)
    RETURNING key, period_ms AS "periodMs", drain_limit AS "drainLimit", used, fraction, checked_ms AS "checkedMs",
      cost, admitted`
}

/** Returns SQL with the rules of `settleBucket`. */
function settleSql(dialect: Dialect, name: string): string {
  const timed = (rows: string) => `(SELECT timed.*, CASE WHEN forgotten <= checked_ms THEN 0
        WHEN forgotten - checked_ms < period THEN forgotten - checked_ms ELSE period END AS left_ms
      FROM ${rows} AS timed)`
  return settlementSql(dialect, name, {
    read: (rows) => `(SELECT product.*, CASE WHEN quotient < given THEN quotient ELSE given END AS returned
      FROM ${productSql(timed(rows), 'most', 'left_ms', 'period')})`,
    set: `used = ${loweredSql('settled.used', 'settled.returned')},
      fraction = CASE WHEN settled.returned > settled.used THEN 0 ELSE settled.fraction END`,
    where: 'settled.period_ms = settled.period AND settled.drain_limit = settled.most',
  })
}
