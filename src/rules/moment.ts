import { isDateTime } from '../generated/validators.js'

/**
 * Parses a given moment and returns milliseconds. It accepts fewer texts than JavaScript, which turns the 31st of
 * February into March, and takes a text without a zone for local time.
 */
export function parseMoment(value: unknown): number | null {
  if (value === null) return null
  const isGiven = value instanceof Date || (typeof value === 'string' && isDateTime(value))
  const moment = new Date(isGiven ? value : Number.NaN)
  const year = moment.getUTCFullYear()
  if (year >= 1 && year <= 9_999) return moment.getTime()
  throw new Error(
    `${JSON.stringify(value)} is not a valid moment: give a Date, a text such as 2027-01-31T12:00:00Z, or null for never`,
  )
}

/** Parses a moment of a row. SQLite stores any value that raw SQL writes, in a column of moments too. */
export function validateStoredMoment(value: unknown): number | null {
  if (value === null || (typeof value === 'number' && !Number.isNaN(new Date(value).getTime()))) return value
  throw new Error('is not a valid moment: give milliseconds since the epoch, or null for never')
}
