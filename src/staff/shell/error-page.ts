import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { MissingTableError } from '../../ground/errors.js'
import type { Parts } from '../../plugin/parts.js'
import { signInContext } from '../sign-in/sign-in-routes.js'
import type { Pages } from './pages.js'
import { addressBelow } from './request-query.js'
import { DatabaseUnavailableError, logFailure, StaffOnlyError, TooManyAttemptsError } from './staff-errors.js'
import { isPageRoute, staffRouteName, wantsPage } from './staff-routes.js'

const TITLES: Readonly<Record<number, string>> = {
  400: 'Something is missing',
  403: 'Staff only',
  404: 'Page not found',
  429: 'Too many attempts',
  503: 'The database does not respond',
}
/** The titles where the status alone says too little. */
const TITLES_BY_CODE: Readonly<Record<string, string>> = {
  FST_RATE_LIMIT_CROSS_SITE: 'Nothing was changed',
  FST_RATE_LIMIT_FORM_TOKEN: 'Nothing was changed',
  FST_RATE_LIMIT_ACTION_DENIED: 'Nothing was changed',
  FST_ERR_CTP_BODY_TOO_LARGE: 'Nothing was changed',
  FST_RATE_LIMIT_DOCUMENT_TOO_LARGE: 'The document is too large',
}
/** Messages of Fastify do not say what to do. */
const MESSAGES_BY_CODE: Readonly<Record<string, string>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'The form is too long: go back, and shorten your text.',
}

/**
 * Creates the error handler of staff routes, which answers with a page or with JSON, never with a stack trace.
 *
 * @param mount the path of the pages with a slash at its end; undefined without the built-in sign-in
 */
export function createErrorHandler(
  { staffLog: log }: Pick<Parts, 'staffLog'>,
  pages: Pages,
  mount: string | undefined,
) {
  return async function answerWithError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
    const { statusCode = 500 } = error
    if (statusCode >= 500) logFailure(error, request, log, 'A staff page of the rate limiter failed')
    reply.code(statusCode)
    const message = messageFor(error, statusCode)
    if (!wantsPage(request)) return reply.send({ error: message })
    if (mount !== undefined && asksToSignIn(error, request) && isPageRoute(request)) {
      const to = addressBelow(mount, request)
      return pages.send(reply, 'sign-in', signInContext(request, { refused: true, to }))
    }
    const mayGoOn = isPageRoute(request) && statusCode !== 403 && statusCode !== 429
    return pages.send(reply, 'error', {
      page: {
        title: titleFor(error, statusCode),
        message,
        dashboard_href: mayGoOn ? './' : statusCode === 404 ? mount : undefined,
      },
    })
  }
}

/**
 * Returns whether the answer is the sign-in form. It is also the answer after too many refusals, since they may come
 * from strangers at the same address, such as that of a proxy which is not trusted.
 */
export function asksToSignIn(error: FastifyError, request: FastifyRequest): boolean {
  return (
    error instanceof StaffOnlyError || (error instanceof TooManyAttemptsError && staffRouteName(request) !== 'sign-in')
  )
}

export function titleFor(error: FastifyError, statusCode: number): string {
  if (error.cause instanceof MissingTableError) return 'The database must be migrated'
  return TITLES_BY_CODE[error.code] ?? TITLES[statusCode] ?? 'Something went wrong'
}

/** Returns the message of an error for readers. Messages of internal failures go to the log only. */
export function messageFor(error: FastifyError, statusCode: number): string {
  const meantForReaders = statusCode < 500 || error instanceof DatabaseUnavailableError
  return meantForReaders
    ? (MESSAGES_BY_CODE[error.code] ?? error.message)
    : "The page could not be rendered. The reason is in the server's log."
}
