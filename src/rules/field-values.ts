/** Parses the values of single fields. An error's message is shown beside the field. */

import { METHODS } from 'node:http'
import { asText, validateStorable } from '../ground/storable.js'
import { ALGORITHMS, type Algorithm, validateAlgorithm } from '../limiter/algorithm.js'
import { parseLength } from '../limiter/rate.js'
import { DURATIONS, spellLength } from '../limiter/rate-words.js'
import { type Condition, MAX_CONDITION_LENGTH, parseCondition } from './conditions/condition.js'
import type { Field } from './description.js'
import { validatePatternSyntax } from './patterns/pattern.js'

export const MAX_PATTERN_LENGTH = 255

/** Creates a parser that limits the length of what another one accepts. */
export function upTo<Parsed>(maxLength: number, parse: (text: string) => Parsed): (value: unknown) => Parsed {
  return function parseUpTo(value) {
    const parsed = parse(asText(value))
    if (asText(value).length > maxLength) throw new Error(`must be at most ${maxLength} characters long`)
    return parsed
  }
}

export function validateBoolean(value: unknown): boolean {
  if (typeof value !== 'boolean') throw new Error('must be true or false')
  return value
}

/** Creates a check of integers. */
export function integerWithin(minimum: number, maximum: number): (value: unknown) => number {
  return function validateInteger(value) {
    if (typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum) return value
    throw new Error(`must be an integer between ${minimum} and ${maximum}`)
  }
}

export function validatePattern(value: unknown): string {
  const pattern = asText(value)
  if (pattern.length === 0 || pattern.length > MAX_PATTERN_LENGTH) {
    throw new Error(`must be 1 to ${MAX_PATTERN_LENGTH} characters long`)
  }
  validateStorable(pattern)
  validatePatternSyntax(pattern)
  return pattern
}

/** Returns the compiled condition; undefined for an empty text, which is true. */
export function validateCondition(value: unknown): Condition | undefined {
  const text = asText(value)
  // The length is checked before the condition is compiled, since that would take long for a long text.
  if (text.length > MAX_CONDITION_LENGTH) throw new Error(`must be at most ${MAX_CONDITION_LENGTH} characters long`)
  return parseCondition(validateStorable(text))
}

/** @throws Error for an algorithm that does not exist */
const ALGORITHM_OPTIONS: readonly { readonly value: Algorithm; readonly label: string }[] = [
  { value: 'fixed_window', label: 'Fixed window: periods by the clock' },
  { value: 'sliding_window', label: 'Sliding window: the period before now' },
  { value: 'token_bucket', label: 'Token bucket: a burst, then evenly' },
  { value: 'leaky_bucket', label: 'Leaky bucket: a burst, then evenly' },
  { value: 'concurrency', label: 'Concurrency: requests in progress at the same time' },
]

/** The field that rules and overrides share. */
export const ALGORITHM = {
  kind: 'text',
  default: 'fixed_window',
  parse: validateAlgorithm,
  schema: { enum: ALGORITHMS },
  about: 'How requests are counted; concurrency counts those in progress: 20/60s is at most 20 at a time.',
  panel: { title: 'Algorithm', input: 'select', options: ALGORITHM_OPTIONS },
} as const satisfies Field

/** Returns the milliseconds of a duration as it is stored; null for an empty text. */
function parseDuration(value: unknown): number | null {
  const text = asText(value)
  if (text === '') return null
  const lengthMs = parseLength(text)
  if (lengthMs !== undefined) return lengthMs
  throw new Error(`${JSON.stringify(text)} is not a valid duration: give ${DURATIONS}, or an empty text for none`)
}

/** A field that is a duration, or empty. */
export const DURATION = {
  kind: 'text',
  default: '',
  parse: parseDuration,
  tidy: (typed) => typed.replace(/\s/g, '').toLowerCase(),
  guess: spellLength,
} as const satisfies Partial<Field>

export const MAX_METHOD_LENGTH = 255

/** Parses the methods of a rule into upper case: `get, post` is `['GET', 'POST']`. */
export function parseMethods(value: unknown): string[] {
  const text = asText(value).toUpperCase()
  const methods = [...new Set(text.split(',').map((name) => name.trim()))]
  if (methods.length === 1 && methods[0] === 'ALL') return methods
  const wrong = methods.find((name) => !METHODS.includes(name))
  if (wrong !== undefined) {
    throw new Error(`${JSON.stringify(wrong)} is not a valid HTTP method: give ALL or a list such as GET,POST`)
  }
  if (methods.join(',').length > MAX_METHOD_LENGTH) throw new Error('is too long: give ALL')
  return methods
}
