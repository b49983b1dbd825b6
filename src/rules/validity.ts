/** The time for which a rule is in force: from one moment on until before another. */
import type { Field } from '../ground/field.js'
import { parseMoment } from './moment.js'

/** The time of a rule, in milliseconds since the epoch; null where it has no such end. */
export interface Validity {
  readonly startsAtMs: number | null
  readonly endsAtMs: number | null
}

export const STARTS_AT = {
  kind: 'moment',
  default: null,
  parse: parseMoment,
  about: 'The moment from which the rule is in force, such as 2030-01-31T12:00:00Z; null for always.',
  help: 'The rule is in force from this moment on. Empty: at once.',
  panel: { title: 'Starts', noun: 'start', group: 'Time', input: 'moment' },
} as const satisfies Field

export const ENDS_AT = {
  kind: 'moment',
  default: null,
  parse: parseMoment,
  about: 'The moment from which the rule is no longer in force, later than startsAt; null for never.',
  help: 'The rule is no longer in force from this moment on. Empty: it does not end.',
  panel: { title: 'Ends', noun: 'end', group: 'Time', input: 'moment' },
} as const satisfies Field

export function isInForce({ startsAtMs, endsAtMs }: Validity, nowMs: number): boolean {
  return (startsAtMs === null || nowMs >= startsAtMs) && (endsAtMs === null || nowMs < endsAtMs)
}

/** A time in which no rule begins or ends: from `fromMs` until before `untilMs`. */
export interface TimeRange {
  readonly fromMs: number
  readonly untilMs: number
}

export function isInRange({ fromMs, untilMs }: TimeRange, nowMs: number): boolean {
  return nowMs >= fromMs && nowMs < untilMs
}

/** Returns the longest range around a moment in which none of the rules begins or ends. */
export function steadyRangeAround(rules: readonly Validity[], nowMs: number): TimeRange {
  let fromMs = Number.NEGATIVE_INFINITY
  let untilMs = Number.POSITIVE_INFINITY
  for (const { startsAtMs, endsAtMs } of rules) {
    for (const boundMs of [startsAtMs, endsAtMs]) {
      if (boundMs === null) continue
      if (boundMs > nowMs) untilMs = Math.min(untilMs, boundMs)
      else fromMs = Math.max(fromMs, boundMs)
    }
  }
  return { fromMs, untilMs }
}
