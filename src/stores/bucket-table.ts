import type { Dialect } from '../db/dialect.js'
import type { BucketCounter } from '../limiter/bucket.js'
import { readBucket, WINDOW_CHECKS, writeBucket } from '../limiter/windows.js'
import { admittedSql, productSql, replayChecks, sameLimitAndCost, toAdmission } from './admission.js'
import { type CounterTable, defineCounterTable, loweredSql, settlementSql } from './counter-table.js'
import { ONE_WINDOW, readWindows, type WindowNames, windowNames, windowsSql } from './listed-windows.js'

interface BucketRow extends BucketCounter {
  readonly key: string
  readonly cost: number
  readonly admitted: number
  readonly windows: string | null
}

export function tokenBucketTable(dialect: Dialect): CounterTable {
  return bucketTable(dialect, 'rate_limit_token_bucket', WINDOW_CHECKS.token_bucket)
}

export function leakyBucketTable(dialect: Dialect): CounterTable {
  return bucketTable(dialect, 'rate_limit_leaky_bucket', WINDOW_CHECKS.leaky_bucket)
}

function bucketTable(dialect: Dialect, name: string, checkBuckets: typeof WINDOW_CHECKS.token_bucket): CounterTable {
  return defineCounterTable<BucketRow>({
    name,
    sql: advanceSql(dialect, name),
    windowsSql: advanceWindowsSql(dialect, name),
    settleSql: settleSql(dialect, name),
    joins: sameLimitAndCost,
    asked(group) {
      const { limit, periodMs } = group.first.policy
      const { asked, cost, admitted } = toAdmission(group)
      return [periodMs, limit, admitted * cost, asked, cost, admitted]
    },
    askedWindows(group, nowMs) {
      const { policy } = group.first
      const { asked, cost, admitted } = toAdmission(group)
      const windows = (policy.windows ?? [policy]).map(({ limit, periodMs }) =>
        writeBucket({ periodMs, checkedMs: nowMs, drainLimit: limit, used: admitted * cost, fraction: 0 }),
      )
      const longestMs = Math.max(...windows.map(([periodMs = 0]) => periodMs))
      return [longestMs, policy.limit, admitted * cost, asked, cost, admitted, windows]
    },
    answer({ windows, cost, admitted, ...only }, group, nowMs) {
      const stored = windows === null ? [writeBucket(only)] : readWindows(windows)
      const locked = stored.map((numbers) => {
        const counter = readBucket(numbers)
        return writeBucket({ ...counter, used: counter.used - admitted * cost })
      })
      return replayChecks(checkBuckets, locked, group, nowMs)
    },
  })
}

/** Returns SQL for the bucket as it is at the time of the check, and for what is in use of it. */
function usedSql({ stored: c, asked, goesOn, from }: WindowNames): string {
  const isLater = `${asked}.checked_ms > ${c}.checked_ms`
  const elapsed = `${asked}.checked_ms - ${c}.checked_ms`
  const aged = `(SELECT ${asked}.period_ms AS period, ${asked}.drain_limit AS most,
        CASE WHEN ${goesOn} AND NOT ${isLater} THEN ${c}.checked_ms ELSE ${asked}.checked_ms END AS checked,
        CASE WHEN ${goesOn} THEN ${c}.drain_limit ELSE ${asked}.drain_limit END AS drain,
        CASE WHEN ${goesOn} THEN ${c}.used ELSE 0 END AS had,
        CASE WHEN ${goesOn} THEN ${c}.fraction ELSE 0 END AS had_fraction,
        CASE WHEN NOT (${goesOn} AND ${isLater}) THEN 0 WHEN ${elapsed} < ${c}.period_ms THEN ${elapsed}
          ELSE ${c}.period_ms END AS elapsed ${from})`
  const drained = `(SELECT product.*, had_fraction - remainder AS parts,
        had - quotient - CASE WHEN had_fraction < remainder THEN 1 ELSE 0 END AS wholes
      FROM ${productSql(aged, 'drain', 'elapsed', 'period')})`
  const left = `(SELECT drained.*, CASE WHEN wholes < 0 THEN 0 ELSE wholes END AS whole,
        CASE WHEN wholes < 0 THEN 0 WHEN parts < 0 THEN parts + period ELSE parts END AS part
      FROM ${drained} AS drained)`
  return `(SELECT leftover.*, whole + CASE WHEN part > 0 THEN 1 ELSE 0 END AS in_use FROM ${left} AS leftover)`
}

/** Returns SQL for the limit at which the bucket drains after the check. */
const DRAIN = 'CASE WHEN granted > 0 OR drain < most THEN most ELSE drain END'
const RETURNED = `key, period_ms AS "periodMs", drain_limit AS "drainLimit", used, fraction, checked_ms AS "checkedMs",
      cost, admitted, windows`

/** Returns SQL with the rules of `checkBucket`, for many counters at once. */
function advanceSql(dialect: Dialect, name: string): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const expires = (checked: string, period: string) => dialect.fromMs(`${checked} + ${period}`)
  const now = dialect.fromMs('$2')
  return `INSERT INTO ${dialect.table(name)} AS c
      (key, period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(3)}, 0, ${dialect.whole('$2')}, ${field(4)},
      ${field(5)}, ${field(6)}, ${expires(dialect.whole('$2'), field(1))}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, updated_at) =
      (SELECT period, ${DRAIN},
        whole + granted * excluded.cost, part, checked, excluded.asked, excluded.cost, granted,
        ${expires('checked', 'period')}, excluded.updated_at
       FROM (SELECT used.*, ${admittedSql('most')} AS granted FROM ${usedSql(ONE_WINDOW)} AS used) AS decided)
    WHERE c.windows IS NULL
    RETURNING ${RETURNED}`
}

/** Returns SQL that does the same for counters with several windows: each admits what all of them admit. */
function advanceWindowsSql(dialect: Dialect, name: string): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const now = dialect.fromMs('$2')
  const columns = ['period_ms', 'checked_ms', 'drain_limit', 'used', 'fraction']
  const names = windowNames(
    dialect,
    columns,
    columns.map((column) => `c.${column}`),
  )
  const used = 'whole + granted * excluded.cost'
  return `INSERT INTO ${dialect.table(name)} AS c
      (key, period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, created_at, updated_at,
       windows)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(3)}, 0, ${dialect.whole('$2')}, ${field(4)},
      ${field(5)}, ${field(6)}, ${dialect.fromMs(`${dialect.whole('$2')} + ${field(1)}`)}, ${now}, ${now},
      ${dialect.jsonField(7, 'text')}
    FROM ${dialect.jsonRows()} WHERE ${dialect.lazily}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, drain_limit, used, fraction, checked_ms, asked, cost, admitted, expires_at, updated_at, windows) =
      (${names.withRows} SELECT MAX(period), MAX(${DRAIN}), MAX(${used}), MAX(part), MAX(checked), excluded.asked, excluded.cost,
        MAX(granted), ${dialect.fromMs('MAX(checked + period)')}, excluded.updated_at,
        ${windowsSql(dialect, `period, checked, ${DRAIN}, ${used}, part`)}
       FROM (SELECT admitting.*, MIN(admits) OVER () AS granted
         FROM (SELECT used.*, ${admittedSql('most')} AS admits FROM ${usedSql(names)} AS used) AS admitting) AS decided)
    RETURNING ${RETURNED}`
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
