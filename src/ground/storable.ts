import { createHash } from 'node:crypto'
import { InvalidSettingError } from './errors.js'

/** The length of the columns that hold keys, in characters. */
export const MAX_KEY_LENGTH = 255
/** The length of the column that holds paths. */
export const MAX_PATH_LENGTH = 500
/** The length of a mark and a hash. */
const HASH_LENGTH = 65

export function asText(value: unknown): string {
  if (typeof value !== 'string') throw new Error('must be a text')
  return value
}

/** Returns a text of any length that databases accept. */
export function validateStorable(value: unknown): string {
  const text = asText(value)
  if (text.includes('\0')) throw new Error('must not contain NUL')
  if (!text.isWellFormed()) throw new Error('must not contain half a surrogate pair')
  return text
}

/** Returns a text that fits a column: no NUL, no half of a surrogate pair (PostgreSQL refuses both), and not longer. */
export function storable(text: string, maxLength: number): string {
  let stored = text
  if (stored.includes('\0')) stored = stored.replaceAll('\0', '')
  if (stored.length > maxLength) stored = stored.slice(0, maxLength)
  return stored.isWellFormed() ? stored : stored.toWellFormed()
}

/**
 * Returns a text as a copy of its own, for what waits in memory: a part of a longer text, such as a cookie of a header or
 * the path of a URL, would keep all of that.
 */
export function detached(text: string): string {
  // The slice is one of a new text, whose beginning nothing else has. What a host hands in may be no text, which is
  // refused later.
  return typeof text === 'string' ? ` ${text}`.slice(1) : text
}

/**
 * Returns a text of at most `maxLength` characters that identifies one of any length: the text itself where a column
 * can hold it, else its beginning, a mark, and a hash of all of it. A text that resembles such a form is hashed too, so
 * that two different texts never have the same form.
 */
export function boundedText(text: string, maxLength: number, mark = '#'): string {
  const resemblesHash = text.charAt(text.length - HASH_LENGTH) === mark
  if (!resemblesHash && storable(text, maxLength) === text) return text
  // UTF-16, since two texts with half of a surrogate pair may be equal in UTF-8.
  const hash = createHash('sha256').update(text, 'utf16le').digest('hex')
  return `${storable(text, maxLength - HASH_LENGTH)}${mark}${hash}`
}

/** Returns the name of a counter in stores. */
export function counterKey(name: string): string {
  return boundedText(name, MAX_KEY_LENGTH)
}

/** Returns what the stored names of all counters begin with whose names begin with a text: shortened ones have less of it. */
export function counterPrefix(text: string): string {
  return text.slice(0, MAX_KEY_LENGTH - HASH_LENGTH)
}

/** Excludes the separators of counters' names, so that no name in a namespace equals one in another, or in none. */
export const NAMESPACE = /^[A-Za-z0-9_.-]{1,50}$/
export const NAMESPACE_ALLOWED = '1 to 50 letters, digits, _ . -'

/**
 * Validates the namespace of a store that the host creates.
 *
 * @throws InvalidSettingError
 */
export function validateNamespace(namespace: string | undefined): void {
  if (namespace === undefined || NAMESPACE.test(namespace)) return
  throw new InvalidSettingError(`Setting "namespace" is ${JSON.stringify(namespace)}: give ${NAMESPACE_ALLOWED}`)
}
