/** The text in which a counter of requests in progress lists its places, on both databases. */

const NUMBER = '-?[0-9]{1,16}'
/** Its identity, its end, its cost, and in a new counter a number more. */
const PLACE = `\\[${NUMBER}(?:, ?${NUMBER}){2,3}\\]`

/** A regular expression that both JavaScript and PostgreSQL read. */
export const PLACES_PATTERN = `^\\[(?:${PLACE}(?:, ?${PLACE})*)?\\]$`

/** The name of the function in SQLite. */
export const CHECK_PLACES = 'rate_limit_check_places'

const pattern = new RegExp(PLACES_PATTERN)

/** Returns the text; an empty list for what only statements of others can have written. */
export function checkPlaces(text: unknown): string {
  return typeof text === 'string' && pattern.test(text) ? text : '[]'
}
