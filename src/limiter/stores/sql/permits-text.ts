/** The text in which a counter of requests in progress lists its permits, on both databases. */

const NUMBER = '-?[0-9]{1,16}'
/** Its identity, its end, its cost, and in a new counter a number more. */
const PERMIT = `\\[${NUMBER}(?:, ?${NUMBER}){2,3}\\]`

/** A regular expression that both JavaScript and PostgreSQL read: statements of others may have written anything. */
export const PERMITS_PATTERN = `^\\[(?:${PERMIT}(?:, ?${PERMIT})*)?\\]$`
