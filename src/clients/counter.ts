/**
 * The names of counters: a limit, and the client that it counts.
 *
 *     counter = [ namespace "|" ] limit "|" client
 *     limit   = "default" [ ":" periods ]                  without a rule; periods where a function answers the rate
 *             | prefix                                     of `rateLimits`; begins with "/"
 *             | "rule:" name | "refusals:" name            what a rule counts, and its refusals where it bans
 *             | "limit:" periods ":" name ":" route        of a route, without and with a name
 *             | "shared:" periods ":" name                 of all routes with the name
 *             | "notice:" share ":" period ":" limit         what has told of a share of the window of another counter
 *             | "override:" id | "ceiling" | "staff-" name
 *     client  = as in `client.ts`, each value with its escapes, and a long one as its beginning and a hash
 *
 * Bars and backslashes of a limit are escaped, and no limit begins like a part of a client: the bars that no backslash
 * precedes say where what begins, whatever hosts and clients write. Stores shorten what their column cannot hold.
 */

import { boundedText } from '../ground/storable.js'
import { CLIENT_BEGINNING, type Client, EVERYBODY, escapeBars, formatPart, splitParts } from './client.js'

/** The length is more than that of any genuine value, and fits into the counter's column with the limit before it. */
const MAX_VALUE_LENGTH = 128
/** Marks the hash of a value. Stores mark that of a counter with another one, and leave a counter with such an end as it is. */
const VALUE_MARK = '~'

/** The limits of the staff pages and the API. */
const STAFF_LIMITS = ['refusal', 'token', 'sign-in', 'sign-in-account', 'sign-in-browser', 'alert-test'] as const
const STAFF_COUNTER = new RegExp(`^(?:[\\w.-]{1,50}\\|)?staff-(?:${STAFF_LIMITS.join('|')})\\|`)

/** The names of limits. */
export const DEFAULT_LIMIT = 'default'
export const CEILING_LIMIT = 'ceiling'

export function ruleLimitName(rule: string): string {
  return `rule:${escapeBars(rule)}`
}

export function refusalsLimitName(rule: string): string {
  return `refusals:${escapeBars(rule)}`
}

export function prefixLimitName(prefix: string): string {
  return escapeBars(prefix)
}

/** Returns the name of the counter of the notices of another counter, for a share of its window. */
export function noticeCounter(counter: string, period: string, share: number): string {
  return `notice:${share}:${period}:${counter}`
}

/** Returns the name of the limit of an override, by the id of its row: an edit keeps the count. */
export function overrideLimitName(id: number): string {
  return `override:${id}`
}

export function defaultLimitName(periods: string): string {
  return `${DEFAULT_LIMIT}:${periods}`
}

export function routeLimitName(periods: string, name: string, route: string): string {
  return escapeBars(`limit:${periods}:${name.replace(/[\\:]/g, '\\$&')}:${route}`)
}

export function sharedLimitName(periods: string, name: string): string {
  return escapeBars(`shared:${periods}:${name}`)
}

/** Returns the name of the counter of a limit, whose name one of the functions above returned, for a client. */
export function formatCounter(limit: string, client: Client): string {
  return `${limit}|${formatCounted(client)}`
}

/** Returns the counters of all these limits for all these clients. */
export function formatCounters(limits: readonly string[], clients: readonly Client[]): string[] {
  const texts = new Set(clients.map(formatCounted))
  return limits.flatMap((limit) => [...texts].map((text) => `${limit}|${text}`))
}

function formatCounted({ parts }: Client): string {
  return parts.length === 0 ? EVERYBODY.text : parts.map(formatCountedPart).join('|')
}

/** Formats a part of a client as counters have it. */
export function formatCountedPart({ name, value }: Client['parts'][number]): string {
  return formatPart({ name, value: value && boundedValue(value) })
}

/** Bounds a text that clients choose, since it is kept as long as its counter: a long text becomes its hash. */
function boundedValue(text: string): string {
  return boundedText(text, MAX_VALUE_LENGTH, VALUE_MARK)
}

/** A counter, as its name has it. */
export interface ParsedCounter {
  /** The text before the client, with the bar. */
  readonly before: string
  /** The parts of the client, as `formatCountedPart` writes them. */
  readonly parts: readonly string[]
}

/** Parses the name of a counter; undefined for a name that was cut before its client, and for another text. */
export function parseCounter(name: string): ParsedCounter | undefined {
  const texts = splitParts(name)
  const index = texts.findIndex((text, index) => index > 0 && CLIENT_BEGINNING.test(text))
  if (index === -1) return undefined
  const parts = texts.slice(index)
  return { before: name.slice(0, name.length - parts.join('|').length), parts }
}

/** Returns the counter of a limit of the staff pages or the API. */
export function staffCounter(limit: (typeof STAFF_LIMITS)[number], client: Client): string {
  return formatCounter(`staff-${limit}`, client)
}

/** Returns whether a counter is of these limits: staff who reset it could guess the passwords of others without an end. */
export function isStaffCounter(counter: string): boolean {
  return STAFF_COUNTER.test(counter)
}
