import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Pages } from './pages.js'
import { signInContext } from './sign-in-routes.js'
import { DatabaseUnavailableError, StaffOnlyError, TooManyAttemptsError } from './staff-errors.js'
import { isPageRoute, routeName, wantsPage } from './staff-routes.js'

const TITLES: Readonly<Record<number, string>> = {
  400: 'There is something missing',
  403: 'Staff only',
  404: 'Page not found',
  429: 'Too many attempts',
  503: 'The database does not answer',
}

/** Turns every failure of a staff route into a page for people or JSON for programs, never a stack trace. */
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
 * Whether the answer is the form to sign in. It is after too many refusals too, which may be those of strangers at the same
 * address, that of a proxy which is not trusted.
 */
export function asksToSignIn(error: FastifyError, request: FastifyRequest): boolean {
  return error instanceof StaffOnlyError || (error instanceof TooManyAttemptsError && routeName(request) !== 'sign-in')
}

export function titleFor(statusCode: number): string {
  return TITLES[statusCode] ?? 'Something went wrong'
}

/** What a failure of the code itself says is for the log. */
export function messageFor(error: FastifyError, statusCode: number): string {
  const meantForReaders = statusCode < 500 || error instanceof DatabaseUnavailableError
  return meantForReaders ? error.message : "The page could not be made. The server's log tells why."
}
