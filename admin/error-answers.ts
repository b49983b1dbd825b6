import createError from '@fastify/error'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Parts } from '../src/plugin/parts.js'
import { asksToSignIn, messageFor, titleFor } from '../src/staff/shell/error-page.js'
import type { Pages } from '../src/staff/shell/pages.js'
import { addressBelow } from '../src/staff/shell/request-query.js'
import { ActionDeniedError, logFailure } from '../src/staff/shell/staff-errors.js'
import { PostOnlyError } from './resources/actions.js'

export const NotFoundError = createError('FST_RATE_LIMIT_NOT_FOUND', 'There is no such page.', 404)

/** Creates the error handler, which answers with a page, or JSON for the panel's scripts, never a stack trace. */
export function createErrorHandler(
  { staffLog }: Pick<Parts, 'staffLog'>,
  pages: Pages,
  mount: string,
  canSignIn: boolean,
) {
  return async function answerWithError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
    // AdminJS's error for an unknown address has no status.
    const statusCode = error.statusCode ?? 500
    if (statusCode >= 500) logFailure(error, request, staffLog, 'The admin panel of the rate limiter failed')
    reply.code(statusCode)
    if (error instanceof PostOnlyError) reply.header('allow', 'POST')
    const message = messageFor(error, statusCode)
    if (!/\btext\/html\b/.test(request.headers.accept ?? ''))
      return reply.send({ error: message, ...(error instanceof ActionDeniedError && { denied: true }) })
    reply.header('content-security-policy', pages.contentSecurityPolicy)
    if (canSignIn && asksToSignIn(error, request)) {
      const page = {
        title: 'Sign in',
        action: `${mount}/sign-in`,
        account: '',
        refused: true,
        to: addressBelow(`${mount}/`, request),
      }
      return pages.send(reply, 'sign-in', { page })
    }
    const page = { title: titleFor(error, statusCode), message }
    return pages.send(reply, 'error', { page })
  }
}
