import createError from '@fastify/error'
import { errorMessage, MissingTableError } from '../errors.js'

/** A request from a client that is not staff. */
export const StaffOnlyError = createError('FST_RATE_LIMIT_STAFF_ONLY', 'Only staff can see this page.', 403)

/** A request that only a staff page may send, from another sender. */
export const CrossSiteError = createError(
  'FST_RATE_LIMIT_CROSS_SITE',
  'The request did not come from a page of this site: go back to the page and try again.',
  403,
)

/** More refused requests, or more attempts to sign in, than the limit. */
export const TooManyAttemptsError = createError('FST_RATE_LIMIT_TOO_MANY_ATTEMPTS', '%s', 429)

/** The database does not answer. */
export const DatabaseUnavailableError = createError('FST_RATE_LIMIT_DATABASE_UNAVAILABLE', '%s', 503)

/** Waits for the database and turns its failure into a DatabaseUnavailableError. */
export async function fromDatabase<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    const message =
      error instanceof MissingTableError
        ? errorMessage(error)
        : "The rate-limit database does not answer at the moment. The server's log has the reason."
    throw new DatabaseUnavailableError(message, { cause: error })
  }
}
