import type { Dialect } from '../database/dialect.js'
import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../ground/storable.js'
import { LAST_MOMENT_MS } from '../ground/time/clock.js'
import { MAX_RULES_LENGTH } from './applied-rules.js'
import type { RowKind } from './batch-table.js'

/** A row of the event log, before it is written. */
export interface RateLimitEvent {
  readonly timestampMs: number
  readonly key: string
  /** The rule; empty when none matched. */
  readonly ruleName: string
  /** The path as received, without the query. */
  readonly path: string
  readonly method: string
  readonly allowed: boolean
  readonly count: number
  readonly limit: number
  /** The socket's peer; null when it is not an IP address. */
  readonly ipAddress: string | null
  readonly userId: number | null
  /** The address that the limit was counted by; null when it was not counted by address. */
  readonly clientIp: string | null
  /** The counted client, whatever the rule, as `Client.text` has it: `ip:203.0.113.7`, `user:7|route:/a`. */
  readonly client: string
  /** The policy that decided: a rule's name, a prefix, `default`, `override`, `deny-list` and the like. */
  readonly policy: string
  readonly outcome: EventOutcome
  /** The rules that applied, as `formatAppliedRules` spells them; empty unless several did. */
  readonly rules: string
}

/**
 * The outcomes of requests: `over_limit` was refused, or with `allowed` true would have been; `denied` was refused by
 * the deny list or an override; `unavailable` was refused because no store answered.
 */
export const EVENT_OUTCOMES = ['allowed', 'over_limit', 'denied', 'unavailable'] as const

export type EventOutcome = (typeof EVENT_OUTCOMES)[number]

/** The lengths of the other columns, in characters. A longer text is cut, and is no error. */
export const MAX_RULE_NAME_LENGTH = 100
export const MAX_METHOD_LENGTH = 10
const MAX_POLICY_LENGTH = 255

const COLUMNS = [
  ['"timestamp"', 'bigint'],
  ['key', 'text'],
  ['rule_name', 'text'],
  ['path', 'text'],
  ['method', 'text'],
  ['allowed', 'boolean'],
  ['count', 'bigint'],
  ['"limit"', 'bigint'],
  ['ip_address', 'text'],
  ['user_id', 'bigint'],
  ['client_ip', 'text'],
  ['client', 'text'],
  ['policy', 'text'],
  ['outcome', 'text'],
  ['rules', 'text'],
  ['weight', 'bigint'],
] as const

const MAX_LIMIT = 2_147_483_647
/** The most requests that a row stands for. */
const MAX_WEIGHT = 2_147_483_647
/** The longest end of a row that is a weight, with the comma and the bracket around it. */
const MAX_WEIGHT_LENGTH = String(MAX_WEIGHT).length + 2

/** Returns a number that fits a column of whole numbers: a host's own store or clock may return any number. */
export function storableNumber(value: number, max: number): number {
  // NaN fails this test too.
  return value > 0 ? Math.min(Math.floor(value), max) : 0
}

/** Returns the values of one row, in the order of the columns. No table refuses one, which would lose its batch. */
export function eventValues(event: RateLimitEvent): (string | number | boolean | null)[] {
  return [
    storableNumber(event.timestampMs, LAST_MOMENT_MS),
    storable(event.key, MAX_KEY_LENGTH),
    storable(event.ruleName, MAX_RULE_NAME_LENGTH),
    storable(event.path, MAX_PATH_LENGTH),
    storable(event.method, MAX_METHOD_LENGTH),
    event.allowed,
    storableNumber(event.count, Number.MAX_SAFE_INTEGER),
    storableNumber(event.limit, MAX_LIMIT),
    event.ipAddress,
    event.userId,
    event.clientIp,
    storable(event.client, MAX_KEY_LENGTH),
    storable(event.policy, MAX_POLICY_LENGTH),
    event.outcome,
    storable(event.rules, MAX_RULES_LENGTH),
    1,
  ]
}

/** What the row of several requests that are alike has of the last one, and how many they are. */
export interface AlikeEvents {
  timestampMs: number
  count: number
  limit: number
  weight: number
}

/** Returns the `eventValues` of the first of several requests that are alike as those of all of them. */
export function valuesOfAlike(first: readonly unknown[], alike: AlikeEvents): unknown[] {
  const changed: Readonly<Record<string, number>> = {
    '"timestamp"': storableNumber(alike.timestampMs, LAST_MOMENT_MS),
    count: storableNumber(alike.count, Number.MAX_SAFE_INTEGER),
    '"limit"': storableNumber(alike.limit, MAX_LIMIT),
    weight: alike.weight,
  }
  return COLUMNS.map(([name], index) => changed[name] ?? first[index])
}

const NULLABLE: ReadonlySet<string> = new Set(['ip_address', 'user_id', 'client_ip'])

/**
 * Returns a row that was kept elsewhere as the `eventValues` of an event; undefined for anything else, which a table may
 * refuse, or never take its batch.
 */
export function toEventRow(values: unknown): readonly unknown[] | undefined {
  if (!Array.isArray(values)) return undefined
  const row: readonly unknown[] = values
  return row.length === COLUMNS.length && COLUMNS.every((column, index) => isValue(column, row[index]))
    ? row
    : undefined
}

function isValue([name, type]: (typeof COLUMNS)[number], value: unknown): boolean {
  if (value === null) return NULLABLE.has(name)
  if (type === 'boolean') return typeof value === 'boolean'
  if (name === 'weight') return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_WEIGHT
  if (type === 'bigint') return Number.isSafeInteger(value)
  return typeof value === 'string' && storable(value, name === 'rules' ? MAX_RULES_LENGTH : MAX_PATH_LENGTH) === value
}

/** Returns the statement that inserts many rows: parameter `$1` is a JSON array of `eventValues`. */
export function insertEventsSql(dialect: Dialect, condition = 'true'): string {
  const names = COLUMNS.map(([name]) => name).join(', ')
  const values = COLUMNS.map(([name, type], index) => {
    const field = dialect.jsonField(index, type)
    return name === '"timestamp"' ? dialect.fromMs(field) : field
  }).join(', ')
  return `INSERT INTO ${dialect.table('rate_limit_event')} (${names})
    SELECT ${values} FROM ${dialect.jsonRows()} WHERE ${dialect.asynchronousCommit} AND ${condition}`
}

/** The rows of the event log. */
export const EVENT_ROWS: RowKind = {
  what: 'events',
  insertSql: insertEventsSql,
  toRow: toEventRow,
  // The weight is the last value; a row that a crash cut off is one event.
  countIn: (row) => Number(/,(\d+)\]$/.exec(row.slice(-MAX_WEIGHT_LENGTH))?.[1] ?? 1),
}
