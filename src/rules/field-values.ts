/** Parses the values of single fields. An error's message is shown beside the field. */

import { METHODS } from 'node:http'
import type { Field } from '../ground/field.js'
import { asText, validateStorable } from '../ground/storable.js'
import { parseLength } from '../limiter/rate.js'
import { DURATIONS, spellLength } from '../limiter/rate-words.js'
import { type Condition, MAX_CONDITION_LENGTH, parseCondition } from './conditions/condition.js'
import { validatePatternSyntax } from './patterns/pattern.js'

export const MAX_PATTERN_LENGTH = 255

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
