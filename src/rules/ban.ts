/** The bans of clients that a rule keeps refusing. */
import type { Dialect } from '../database/dialect.js'
import { type Field, integer } from '../ground/field.js'
import { latestStartMs } from '../ground/time/clock.js'
import type { PlainPolicy, Policy } from '../limiter/algorithm.js'
import { MONTH_MS, windowEndMs, windowStartMs } from '../limiter/period.js'
import { MAX_COUNT } from '../limiter/rate.js'
import { DURATION } from './field-values.js'

/** The refusals after which a rule bans a client, and for how long. */
export interface RuleBan {
  /** The number of refused requests of a client within the longest window of the rate that ban it. */
  readonly after: number
  /** The time for which a ban is in force, in milliseconds. */
  readonly forMs: number
}

/** The digits and the unit of the longest accepted text. */
const MAX_LENGTH = 10

/** The beginning of the note of an override that is a ban. */
export const BAN_NOTE = 'banned by rule '

export const BAN_AFTER = {
  ...integer(0, MAX_COUNT),
  default: 0,
  about: 'The refused requests within the longest window of the rate after which a client is banned; 0 for no ban.',
  help: 'After so many refused requests within the longest window of the rate the client is banned: all its requests are denied. 0: nobody is banned. Only for rules that count by IP address or by user.',
  panel: { title: 'Ban after', group: 'Ban', input: 'number' },
} as const satisfies Field

export const BAN_FOR = {
  ...DURATION,
  schema: { maxLength: MAX_LENGTH },
  about: 'How long a ban is in force: 15m, 2h or 7d, at most 366d; empty where nobody is banned.',
  help: 'How long a ban is in force: 15m, 2h or 7d, at most 366d. A ban is an override, which can be edited and deleted. Empty: nobody is banned.',
  panel: { title: 'Ban for', group: 'Ban', input: 'code', example: '2h' },
} as const satisfies Field

/** Returns the ban of a rule with valid fields; null where it bans no client. */
export function toBan(after: number, forMs: number | null): RuleBan | null {
  return after === 0 || forMs === null ? null : { after, forMs }
}

/**
 * Returns SQL for the moment from which a row of the overrides is a ban; null for other rows. That of a wrong clock
 * becomes right where an operator edits the row.
 */
export function bannedAtSql(row: string): string {
  const isBan = `${row}.effect = 'deny' AND ${row}.path_pattern = '' AND substr(${row}.note, 1, ${BAN_NOTE.length}) = '${BAN_NOTE}'`
  return `CASE WHEN ${isBan} THEN
      CASE WHEN ${row}.updated_at < ${row}.created_at THEN ${row}.updated_at ELSE ${row}.created_at END END`
}

/** Returns SQL for whether a row's expiry is to come, and was not written by a wrong clock: as `isInForce` of overrides. */
export function lastsSql({ fromMs, toMs, whole }: Dialect, row: string, now: string): string {
  const [startMs, endMs, nowMs] = [toMs(bannedAtSql(row)), toMs(`${row}.expires_at`), whole(now)]
  // The condition, as `latestStartMs`, of a ban that lasts from its start to its end.
  const isBelieved = `${startMs} <= ${nowMs} + ${latestStartMs(0)} OR 2 * ${startMs} - ${endMs} <= ${nowMs}`
  return `(${row}.expires_at > ${fromMs(nowMs)} AND COALESCE(${isBelieved}, true))`
}

/**
 * Returns the policy by which refusals are counted: a fixed window of the longest period, which never refuses. A month
 * is counted from the epoch until its end, a window that settles like any other, and gives way to that of the next
 * month.
 */
export function refusalPolicy({ periodMs, windows = [] }: Policy, nowMs: number): PlainPolicy {
  const longest = Math.max(periodMs, ...windows.map((window) => window.periodMs))
  const isMonth = longest === MONTH_MS
  return {
    algorithm: 'fixed_window',
    limit: MAX_COUNT,
    periodMs: isMonth ? windowEndMs(MONTH_MS, windowStartMs(MONTH_MS, nowMs)) : longest,
  }
}
