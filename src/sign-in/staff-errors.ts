import createError from '@fastify/error'
import { MissingTableError, messageOf } from '../errors.js'

/** Asked for by somebody who is not known as staff. */
export const StaffOnlyError = createError('FST_RATE_LIMIT_STAFF_ONLY', 'Only staff can see this page.', 403)

/** Something that only a page of the staff may send, and that something else sent. */
export const CrossSiteError = createError(
  'FST_RATE_LIMIT_CROSS_SITE',
  'This was not sent by the page for it: go back to that page and try again.',
  403,
)

/** More refused requests, or more attempts to sign in, than one client may make. */
export const TooManyAttemptsError = createError('FST_RATE_LIMIT_TOO_MANY_ATTEMPTS', '%s', 429)

/** The database does not answer. */
export const DatabaseUnavailableError = createError('FST_RATE_LIMIT_DATABASE_UNAVAILABLE', '%s', 503)

/** Waits for the database, and says so when it is the database that fails. */
export async function fromDatabase<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    const message =
      error instanceof MissingTableError
        ? messageOf(error)
        : "The rate-limit database does not answer at the moment. The server's log tells why."
    throw new DatabaseUnavailableError(message, { cause: error })
  }
}
