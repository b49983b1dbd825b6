import { createHash } from 'node:crypto'

/** The length of the columns that hold keys, in characters. */
export const MAX_KEY_LENGTH = 255
/** The length of the column that holds paths. */
export const MAX_PATH_LENGTH = 500
/** How much `withHash` adds to the visible part. */
const HASH_LENGTH = 65

/** A text as a column holds it: no NUL, no half of a surrogate pair (PostgreSQL refuses both), and no longer. */
export function storable(text: string, maxLength: number): string {
  let stored = text
  if (stored.includes('\0')) stored = stored.replaceAll('\0', '')
  if (stored.length > maxLength) stored = stored.slice(0, maxLength)
  return stored.isWellFormed() ? stored : stored.toWellFormed()
}

/** Stands for a text that cannot be kept whole: its beginning, and a hash of all of it that tells two such apart. */
export function withHash(text: string, visibleLength: number): string {
  return `${storable(text, visibleLength)}#${createHash('sha256').update(text, 'utf16le').digest('hex')}`
}

/**
 * The name of a counter as stores keep it: whole where a column can hold it, else as its beginning and its hash. What
 * only looks like such a one is hashed too, so that two counters never share a name.
 */
export function counterKey(name: string): string {
  const looksHashed = name.charAt(name.length - HASH_LENGTH) === '#'
  return !looksHashed && storable(name, MAX_KEY_LENGTH) === name ? name : withHash(name, MAX_KEY_LENGTH - HASH_LENGTH)
}
