import createError, { type FastifyErrorConstructor } from '@fastify/error'
import type { FastifyRequest } from 'fastify'
import { MissingTableError } from '../../ground/errors.js'
import type { OutageLog } from '../../ground/outage-log.js'

/** A request from a client that is not staff, with what else the answer says. */
export const StaffOnlyError: FastifyErrorConstructor<{ code: string }, [reason: string]> = createError(
  'FST_RATE_LIMIT_STAFF_ONLY',
  'Only staff can see this page.%s',
  403,
)

/** A request that only a staff page may send, from another sender. */
export const CrossSiteError = createError(
  'FST_RATE_LIMIT_CROSS_SITE',
  'The request did not come from a page of this site: go back to the page and try again.',
  403,
)

/** An action whose form carries no token, or the token of another browser or account. */
export const FormTokenError = createError(
  'FST_RATE_LIMIT_FORM_TOKEN',
  'The form is out of date, and nothing was changed: go back, reload the page, and repeat the action.',
  403,
)

/** An action of staff whose sign-in names no actor, or whose role may not write. */
export const ActionDeniedError = createError('FST_RATE_LIMIT_ACTION_DENIED', '%s', 403)

/** The error of more refused requests, or more attempts to sign in, than the limit. */
export const TooManyAttemptsError = createError('FST_RATE_LIMIT_TOO_MANY_ATTEMPTS', '%s', 429)

/** The database does not answer. */
export const DatabaseUnavailableError = createError('FST_RATE_LIMIT_DATABASE_UNAVAILABLE', '%s', 503)

/**
 * Waits for the database and turns its failure into a DatabaseUnavailableError, which names no more of the database than
 * strangers may know. What is wrong with the request stays as it is.
 */
export async function fromDatabase<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (isAnswer(error)) throw error
    const message =
      error instanceof MissingTableError
        ? 'The tables of the rate limiter are missing: apply its migrations with "ratelimit migrate". The server\'s log has the database, and the whole command.'
        : "The rate-limit database does not respond at the moment. The reason is in the server's log."
    throw new DatabaseUnavailableError(message, { cause: error })
  }
}

/** Returns whether an error already says what to answer. */
function isAnswer(error: unknown): boolean {
  if (!(error instanceof Error && 'statusCode' in error)) return false
  return error instanceof DatabaseUnavailableError || Number(error.statusCode) < 500
}

/** Logs the failure of a request of staff. The outage of the database, which others log, is a line only where they do not. */
export function logFailure(error: Error, request: FastifyRequest, outages: OutageLog, message: string): void {
  if (error instanceof DatabaseUnavailableError) outages.warn({ err: error }, message)
  else request.log.error({ err: error }, message)
}
