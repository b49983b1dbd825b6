import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Pages } from './pages.js'
import { signInContext } from './sign-in-routes.js'
import { DatabaseUnavailableError, StaffOnlyError, TooManyAttemptsError } from './staff-errors.js'
import { isPageRoute, staffRouteName, wantsPage } from './staff-routes.js'

const TITLES: Readonly<Record<number, string>> = {
  400: 'There is something missing',
  403: 'Staff only',
  404: 'Page not found',
  429: 'Too many attempts',
  503: 'The database does not answer',
}

/** Creates the error handler of staff routes, which answers with a page or with JSON, never with a stack trace. */
export function createErrorHandler(pages: Pages, canSignIn: boolean) {
  return async function answerWithError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
    const { statusCode = 500 } = error
    if (statusCode >= 500) request.log.error({ err: error }, 'A staff page of the rate limiter failed')
    reply.code(statusCode)
    const message = messageFor(error, statusCode)
    if (!wantsPage(request)) return reply.send({ error: message })
    if (canSignIn && asksToSignIn(error, request) && isPageRoute(request)) {
      return pages.send(reply, 'sign-in', signInContext(request, { refused: true }))
    }
    const mayGoOn = isPageRoute(request) && statusCode !== 403 && statusCode !== 429
    return pages.send(reply, 'error', {
      page: {
        title: titleFor(statusCode),
        message,
        dashboard_href: mayGoOn ? './' : undefined,
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

export function titleFor(statusCode: number): string {
  return TITLES[statusCode] ?? 'Something went wrong'
}

/** Returns the message of an error for readers. Messages of internal failures go to the log only. */
export function messageFor(error: FastifyError, statusCode: number): string {
  const meantForReaders = statusCode < 500 || error instanceof DatabaseUnavailableError
  return meantForReaders ? error.message : "The page could not be rendered. The server's log has the reason."
}
