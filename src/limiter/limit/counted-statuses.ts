/** The requests that a limit counts: all of them, or those whose responses have certain statuses. */

import { type Field, upTo } from '../../ground/field.js'
import { asText } from '../../ground/storable.js'

/** The statuses of the responses that a limit counts. Classes stay classes, so that a rule takes little memory. */
export interface CountedStatuses {
  /** The single statuses, such as 401. */
  readonly statuses: readonly number[]
  /** The first digits of classes: 4 for `4xx`. */
  readonly classes: readonly number[]
}

const REQUESTS = 'requests'
const CLASS_SIZE = 100
const MAX_COUNTS_LENGTH = 255
/** A final status, or a class of them. Responses of 1xx are interim ones. */
const STATUS = /^[2-5](?:\d\d|xx)$/

/**
 * Parses what a limit counts: `requests`, or statuses and classes such as `401,403` or `4xx,5xx`.
 *
 * @returns null where every request counts
 */
export function parseCounts(value: unknown): CountedStatuses | null {
  const names = readCounts(value)
  if (names[0] === REQUESTS) return null
  return {
    statuses: names.filter((name) => !name.endsWith('x')).map(Number),
    classes: names.filter((name) => name.endsWith('x')).map((name) => Number(name[0])),
  }
}

/** Returns the names of what counts, in lower case and each once: `requests` alone, or statuses and classes. */
function readCounts(value: unknown): string[] {
  const names = asText(value)
    .split(',')
    .map((name) => name.trim().toLowerCase())
  if (names.length === 1 && names[0] === REQUESTS) return names
  const wrong = names.find((name) => !STATUS.test(name))
  if (wrong === undefined) return [...new Set(names)]
  throw new Error(
    `${JSON.stringify(wrong)} is not a valid status of a response: give ${REQUESTS}, or statuses from 200 to 599 and classes such as 401,403 or 4xx,5xx`,
  )
}

/** Returns whether a limit counts the responses with a status. */
export function countsStatus({ statuses, classes }: CountedStatuses, status: number): boolean {
  return classes.includes(Math.floor(status / CLASS_SIZE)) || statuses.includes(status)
}

export const COUNTS = {
  kind: 'text',
  default: REQUESTS,
  parse: upTo(MAX_COUNTS_LENGTH, parseCounts),
  tidy: (typed) => typed.trim().replace(/[\s,;]+/g, ','),
  spell: (value) => readCounts(value).join(','),
  schema: { maxLength: MAX_COUNTS_LENGTH },
  about: 'requests, or the statuses of the responses that count, such as 401,403 or 4xx,5xx.',
  help: 'What is counted: requests, or only those that are answered with certain statuses, such as 401,403 for failed sign-ins or 4xx,5xx for all errors. Refusals never count.',
  panel: { title: 'Counts', noun: 'counted responses', group: 'Counting', input: 'code', example: '401,403' },
} as const satisfies Field
