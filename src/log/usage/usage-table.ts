import { join } from 'node:path'
import type { Database } from '../../database/database.js'
import type { Dialect } from '../../database/dialect.js'
import { MAX_KEY_LENGTH, storable } from '../../ground/storable.js'
import { LAST_MOMENT_MS } from '../../ground/time/clock.js'
import { UNIT } from '../../ground/unit.js'
import type { RowKind } from '../batch-table.js'
import { storableNumber } from '../event.js'

export const USAGE_TABLE = 'rate_limit_usage'
/** The amount at which a sum stops: up to here, numbers of JavaScript and JSON are exact. */
export const MAX_AMOUNT = Number.MAX_SAFE_INTEGER

/** What a client used of a unit, by a policy, on the day of the first charge. */
export interface UsageSum {
  readonly firstMs: number
  readonly client: string
  readonly unit: string
  readonly policy: string
  readonly amount: number
  readonly requests: number
}

const DAY = /^\d{4}-\d{2}-\d{2}$/
const COLUMNS = ['text', 'text', 'text', 'text', 'bigint', 'bigint'] as const

/** Returns the UTC day of a moment: `2026-11-30`. */
export function dayOf(ms: number): string {
  return new Date(storableNumber(ms, LAST_MOMENT_MS)).toISOString().slice(0, 10)
}

/** Returns the values of a row, in the order of `insertUsageSql`. A row begins with its time, for the spool. */
export function usageValues({ firstMs, client, unit, policy, amount, requests }: UsageSum): (string | number)[] {
  const text = (value: string) => storable(value, MAX_KEY_LENGTH)
  const count = (value: number) => storableNumber(value, MAX_AMOUNT)
  return [count(firstMs), text(client), unit, text(policy), dayOf(firstMs), count(amount), requests]
}

/** Returns a row that was kept elsewhere; undefined for anything else, which the table may refuse. */
export function toUsageRow(values: unknown): readonly unknown[] | undefined {
  if (!Array.isArray(values) || values.length !== COLUMNS.length + 1) return undefined
  const row: readonly unknown[] = values
  const [firstMs, client, unit, policy, day, ...counts] = row
  const isStorable = (text: unknown) => typeof text === 'string' && storable(text, MAX_KEY_LENGTH) === text
  const isNamed = typeof unit === 'string' && UNIT.test(unit) && typeof day === 'string' && DAY.test(day)
  const areCounts = [firstMs, ...counts].every((count) => Number.isSafeInteger(count) && Number(count) >= 0)
  return isStorable(client) && isStorable(policy) && isNamed && areCounts ? row : undefined
}

/**
 * Returns the statement that adds many rows to the sums of their days and months: parameter `$1` is a JSON array of
 * `usageValues`. All writers add in one order, so that they never wait for each other in a circle. The sums are safe on
 * the disk when it is answered: there are few of them, and they may be invoiced.
 */
export function insertUsageSql(dialect: Dialect, condition = 'true'): string {
  const table = dialect.table(USAGE_TABLE)
  const [client, unit, policy, day, amount, requests] = COLUMNS.map((type, index) => dialect.jsonField(index + 1, type))
  const rows = (span: string, length: number) => `
    SELECT '${span}' AS span, substr(${day}, 1, ${length}) AS period, ${unit} AS unit, ${client} AS client,
      ${policy} AS policy, ${amount} AS amount, ${requests} AS requests FROM ${dialect.jsonRows()} WHERE ${condition}`
  const keys = 'span, period, unit, client, policy'
  return `INSERT INTO ${table} AS usage (${keys}, amount, requests)
    SELECT ${keys}, ${bounded('SUM(amount)')}, SUM(requests)
    FROM (${rows('day', 10)} UNION ALL ${rows('month', 7)}) AS charged
    WHERE true GROUP BY ${keys} ORDER BY ${keys}
    ON CONFLICT (${keys}) DO UPDATE SET requests = usage.requests + excluded.requests,
      amount = ${bounded('usage.amount + excluded.amount')}`
}

/** Returns a sum that stops where numbers are not exact any more. */
export function bounded(sum: string): string {
  return `CASE WHEN ${sum} > ${MAX_AMOUNT} THEN ${MAX_AMOUNT} ELSE ${sum} END`
}

/**
 * Deletes up to `batchSize` sums of months that ended before a moment, the oldest first, and returns their number. A
 * month and its days go together, so that reports by month and by day agree.
 */
export function deleteOldUsage(database: Database, beforeMs: number, batchSize: number): Promise<number> {
  const { dialect } = database
  const table = dialect.table(USAGE_TABLE)
  const keys = 'span, period, unit, client, policy'
  return database.execute(
    `DELETE FROM ${table} WHERE (${keys}) IN (SELECT ${keys} FROM ${table}
       WHERE span IN ('day', 'month') AND period < $1 ORDER BY span, period LIMIT $2 ${dialect.skipLocked})`,
    [dayOf(beforeMs).slice(0, 7), batchSize],
  )
}

/** The rows of usage. */
export const USAGE_ROWS: RowKind = {
  what: 'sums of usage',
  insertSql: insertUsageSql,
  toRow: toUsageRow,
  countIn: () => 1,
}

/** Returns the folder of the spool of usage, in that of events. */
export function usageSpool(eventSpool: string | undefined): string | undefined {
  return eventSpool === undefined ? undefined : join(eventSpool, 'usage')
}
