/** The table of requests in progress. */

import type { Dialect } from '../../../database/dialect.js'
import { latestStartMs } from '../../../ground/time/clock.js'
import { decideConcurrencyInOrder } from '../../concurrency.js'
import { assignDecisions, type CheckGroup, sameLimitAndCost } from '../groups.js'
import { byKey, type CounterTable, lockedRows, writesRow } from './counter-statements.js'

const NAME = 'rate_limit_concurrency'

const NUMBER = '-?[0-9]{1,16}'
/** The text of a permit: its identity, its end, its cost, and in a new counter a number more. */
const PERMIT = `\\[${NUMBER}(?:, ?${NUMBER}){2,3}\\]`

/** A regular expression that both JavaScript and PostgreSQL read: statements of others may have written anything. */
const PERMITS_PATTERN = `^\\[(?:${PERMIT}(?:, ?${PERMIT})*)?\\]$`

interface PermitsRow {
  readonly key: string
  readonly used: number
  readonly granted: number
}

/**
 * Creates the table of requests in progress: a row lists what is taken of one counter. One statement leaves out what has
 * ended, counts the rest, and adds what a group of checks takes.
 */
export function concurrencyTable(dialect: Dialect): CounterTable {
  const [advance, settle] = [advanceSql(dialect), settleSql(dialect)]
  return {
    name: NAME,
    joins: sameLimitAndCost,
    async advance({ query }, groups, nowMs, decisions) {
      const rows = [...groups].sort(byKey).map(([key, group]) => {
        const permits = permitsFor(group, nowMs)
        const used = permits.reduce((sum, [, , cost]) => sum + cost, 0)
        return [key, group.first.policy.periodMs, used, permits]
      })
      const stored = await query<PermitsRow>(advance, [JSON.stringify(rows), nowMs, latestStartMs(nowMs)])
      const usedBefore = new Map(stored.map(({ key, used, granted }) => [key, used - granted]))
      for (const [key, group] of groups) {
        assignDecisions(group, decideConcurrencyInOrder(group.checks, usedBefore.get(key) ?? 0), decisions)
      }
    },
    async settle(database, groups, nowMs) {
      const rows = [...groups].sort(byKey).map(([key, { checks }], order) => {
        return [key, order, checks.map(({ permit = 0 }) => [permit])]
      })
      await database.execute(settle, [JSON.stringify(rows), nowMs])
    },
  }
}

/**
 * Returns the permits that a new counter gives to a group: of each check its permit, its end, its cost, and how many may
 * be in use before it. A counter that exists gives the same or less, since all checks have one limit and one cost.
 */
function permitsFor({ checks }: CheckGroup, nowMs: number): (readonly [number, number, number, number])[] {
  return checks.flatMap(({ policy: { limit, periodMs }, cost, permit = 0 }, index) => {
    const room = limit - (index + 1) * cost
    return cost === 0 || room < 0 ? [] : [[permit, nowMs + periodMs, cost, room] as const]
  })
}

/**
 * Returns SQL with the rules of `checkConcurrency`, for many counters at once. Where nothing has ended, the list is not
 * read: what is taken is put at its end.
 */
function advanceSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  const nowMs = dialect.whole('$2')
  const now = dialect.fromMs('$2')
  const last = 'c.last_ms - excluded.period_ms'
  // The parameter $3 is that of a permit that has no length, as in `latestStartMs`.
  const goesOn = `c.period_ms = excluded.period_ms AND (${last} <= ${dialect.whole('$3')} OR ${last} <= ${nowMs} + excluded.period_ms)`
  const appended = `substr(c.permits, 1, length(c.permits) - 1) || ',' || substr(list, 2)`
  return `INSERT INTO ${dialect.table(NAME)} AS c
      (key, period_ms, used, granted, first_ms, last_ms, permits, expires_at, created_at, updated_at)
    SELECT ${dialect.jsonField(0, 'text')}, ${field(1)}, ${field(2)}, ${field(2)}, ${nowMs} + ${field(1)},
      CASE WHEN ${field(2)} > 0 THEN ${nowMs} + ${field(1)} ELSE 0 END, ${dialect.jsonField(3, 'text')},
      ${dialect.fromMs(`${nowMs} + ${field(1)}`)}, ${now}, ${now}
    FROM ${dialect.jsonRows()} WHERE ${writesRow(dialect, NAME, dialect.jsonField(0, 'text'), field(2))}
    ON CONFLICT (key) DO UPDATE SET
      (period_ms, used, granted, first_ms, last_ms, permits, expires_at, updated_at) =
      (WITH moment AS MATERIALIZED
          (SELECT CASE WHEN ${goesOn} AND ${last} > ${nowMs} THEN ${last} ELSE ${nowMs} END AS now_ms),
        state AS MATERIALIZED
          (SELECT now_ms, CASE WHEN ${goesOn} AND (c.used = 0 OR c.first_ms > now_ms) THEN 1 ELSE 0 END AS is_whole,
            now_ms + excluded.period_ms AS ends_ms FROM moment),
        held AS MATERIALIZED (SELECT ${field(0)} AS permit, ${field(1)} AS until_ms, ${field(2)} AS cost
          FROM state, ${dialect.jsonRows(`CASE WHEN is_whole = 0 AND ${goesOn} THEN ${dialect.matching('c.permits', PERMITS_PATTERN, '[]')} ELSE '[]' END`)}
          WHERE ${field(1)} > now_ms),
        before AS MATERIALIZED (SELECT CASE WHEN MAX(is_whole) = 1 THEN c.used ELSE COALESCE(SUM(cost), 0) END AS in_use,
          MIN(until_ms) AS first_ms, MAX(until_ms) AS last_ms FROM state LEFT JOIN held ON true),
        taken AS MATERIALIZED (SELECT ${field(0)} AS permit, ends_ms AS until_ms, ${field(2)} AS cost
          FROM state, before, ${dialect.jsonRows('excluded.permits')} WHERE in_use <= ${field(3)}),
        sums AS MATERIALIZED (SELECT COALESCE(SUM(cost), 0) AS granted,
          COALESCE(${dialect.rowsAsJson('permit, until_ms, cost')}, '[]') AS list FROM taken)
       SELECT excluded.period_ms, in_use + granted, granted,
        CASE WHEN in_use = 0 THEN ends_ms WHEN is_whole = 1 THEN c.first_ms ELSE before.first_ms END,
        CASE WHEN granted > 0 THEN ends_ms WHEN in_use = 0 THEN 0 WHEN is_whole = 1 THEN c.last_ms ELSE before.last_ms END,
        CASE WHEN is_whole = 0 THEN COALESCE((SELECT ${dialect.rowsAsJson('permit, until_ms, cost')}
            FROM (SELECT * FROM held UNION ALL SELECT * FROM taken) AS permits), '[]')
          WHEN granted = 0 THEN c.permits WHEN in_use = 0 THEN list
          ELSE ${appended} END,
        ${dialect.fromMs('ends_ms')}, excluded.updated_at
       FROM state, before, sums)
    RETURNING key, used, granted`
}

/** Returns SQL that gives permits back, by their identities. */
function settleSql(dialect: Dialect): string {
  const field = (index: number) => dialect.jsonField(index, 'bigint')
  return `UPDATE ${dialect.table(NAME)} AS c SET (used, granted, first_ms, last_ms, permits, updated_at) =
      (WITH returned AS MATERIALIZED (SELECT ${field(0)} AS permit FROM ${dialect.jsonRows('settled.returned')}),
        held AS MATERIALIZED (SELECT ${field(0)} AS permit, ${field(1)} AS until_ms, ${field(2)} AS cost
          FROM ${dialect.jsonRows(dialect.matching('settled.permits', PERMITS_PATTERN, '[]'))} WHERE ${field(0)} NOT IN (SELECT permit FROM returned))
       SELECT COALESCE(SUM(cost), 0), 0, COALESCE(MIN(until_ms), 0), COALESCE(MAX(until_ms), 0),
        COALESCE(${dialect.rowsAsJson('permit, until_ms, cost')}, '[]'), ${dialect.fromMs(dialect.whole('$2'))} FROM held)
    FROM ${lockedRows(dialect, NAME, `${dialect.jsonField(2, 'text')} AS returned`)} AS settled
    WHERE c.key = settled.key`
}
