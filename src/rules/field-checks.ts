import { type FieldErrors, messageOf } from '../errors.js'
import { ALGORITHMS, type Algorithm } from '../limiter/algorithm.js'
import { checkPatternSyntax } from './pattern.js'

/** Of a row, as somebody gives them: nothing is known about their values. */
export type Fields = Readonly<Record<string, unknown>>

/** Checks one field; throws an error whose message goes beside it. */
export type FieldCheck = (value: unknown) => unknown

/**
 * How much of a row there is to check: a new one; a stored one as an update leaves it; or only the fields that an
 * update writes.
 */
export type Extent = 'new' | 'stored' | 'part'

export const MAX_PATTERN_LENGTH = 255

/**
 * @param fields one that is undefined stays as it is, or takes its default
 * @param required the fields that are no default's
 * @returns one message for every wrong field
 */
export function fieldErrors(
  checks: Readonly<Record<string, FieldCheck>>,
  required: readonly string[],
  fields: Fields,
  extent: Extent,
): FieldErrors {
  const errors: Record<string, string> = {}
  for (const [field, check] of Object.entries(checks)) {
    const value = fields[field]
    if (value === undefined) {
      if (extent !== 'part' && required.includes(field)) errors[field] = 'is required'
      continue
    }
    try {
      check(value)
    } catch (error) {
      errors[field] = messageOf(error)
    }
  }
  return errors
}

export function asText(value: unknown): string {
  if (typeof value !== 'string') throw new Error('must be a text')
  return value
}

/** A text of any length that databases take. */
export function checkStorable(value: unknown): void {
  const text = asText(value)
  if (text.includes('\0')) throw new Error('must not contain NUL')
  if (!text.isWellFormed()) throw new Error('must not contain half a surrogate pair')
}

export function checkBoolean(value: unknown): void {
  if (typeof value !== 'boolean') throw new Error('must be true or false')
}

export function checkPattern(value: unknown): void {
  const pattern = asText(value)
  if (pattern.length === 0 || pattern.length > MAX_PATTERN_LENGTH) {
    throw new Error(`must be 1 to ${MAX_PATTERN_LENGTH} characters long`)
  }
  checkStorable(pattern)
  checkPatternSyntax(pattern)
}

/** @throws Error for an algorithm that does not exist */
export function checkAlgorithm(value: unknown): Algorithm {
  const algorithm = ALGORITHMS.find((known) => known === value)
  if (algorithm !== undefined) return algorithm
  throw new Error(`${JSON.stringify(value)} is no algorithm: give ${ALGORITHMS.join(', ')}`)
}
