import { DURATIONS, readDuration } from '../../../src/limiter/rate-words.js'
import type { TimeRange } from '../../../src/reports/report-window.js'
import { readRange } from '../../../src/staff/dashboard/time-range.js'
import { UsageError } from './command.js'
import { InvalidArgumentError } from './commander.js'

/**
 * Creates the parser of an option that takes an integer.
 *
 * @param counted what is counted, in the plural: `days`
 */
export function integer(counted: string, min: number, max: number): (value: string) => number {
  return (value) => {
    const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Give a whole number of ${counted}, ${min} to ${max}`)
  }
}

/**
 * Parses the duration of an option, in milliseconds.
 *
 * @throws UsageError naming the option
 */
export function parseLength(option: string, text: string): number {
  const lengthMs = readDuration(text)
  if (lengthMs !== undefined) return lengthMs
  throw new UsageError(`${option} is ${JSON.stringify(text)}: give ${DURATIONS}`)
}

/** The options of a range, as typed. */
export interface RangeOptions {
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/**
 * Parses the range of `--since` and `--until`, as the pages read it; undefined where neither is set.
 *
 * @throws UsageError naming the wrong option
 */
export function parseRange(options: RangeOptions, nowMs: number): TimeRange | undefined {
  const typed = new Map(Object.entries(options))
  const { range, typed: { problem } = {} } = readRange((name) => typed.get(name) ?? '', nowMs)
  if (problem === undefined) return range
  const text = typed.get(problem.field)
  const subject = text === undefined ? `--${problem.field} is missing` : `--${problem.field} is ${JSON.stringify(text)}`
  throw new UsageError(`${subject}: ${problem.text.charAt(0).toLowerCase()}${problem.text.slice(1, -1)}`)
}

/** Returns a range as JSON has it: moments, and null for an end that is still to come. */
export function rangeJson({ since, until }: TimeRange): object {
  return { since: new Date(since).toISOString(), until: until === undefined ? null : new Date(until).toISOString() }
}
