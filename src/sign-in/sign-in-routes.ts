import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { countSignIn, verifyInTurn } from './own-limits.js'
import type { Pages } from './pages.js'
import { requestedPath } from './request-query.js'
import { createCrossSiteGuard } from './same-site.js'
import type { StaffAccounts } from './staff-accounts.js'
import { fromDatabase } from './staff-errors.js'
import { staffRoute, staffRouteName } from './staff-routes.js'

/** Room for a name and a password. */
const BODY_LIMIT = 4096

/** @param depth how many segments of the path of these routes follow the mount's: `/dashboard/sign-in` has two */
export function registerSignInRoutes(
  app: FastifyInstance,
  internals: Internals,
  staff: StaffAccounts,
  pages: Pages,
  depth: number,
): void {
  // The host may parse forms already, into a shape of its choice.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: BODY_LIMIT },
    async (_request: FastifyRequest, body: string) => new URLSearchParams(body),
  )

  const refuseCrossSite = createCrossSiteGuard(internals)

  async function showSignIn(request: FastifyRequest, reply: FastifyReply) {
    if (await fromDatabase(staff.isStaff(request))) return reply.redirect('./')
    return pages.send(reply, 'sign-in', signInContext(request, {}))
  }

  async function signIn(request: FastifyRequest<{ Body: URLSearchParams | undefined }>, reply: FastifyReply) {
    const account = request.body?.get('account') ?? ''
    const password = request.body?.get('password') ?? ''
    const browser = staff.knownBrowser(request, account)
    await countSignIn(internals, request, reply, account, browser)
    const isRight = await verifyInTurn(reply, browser !== undefined, () => staff.verify({ account, password }))
    if (!isRight) {
      request.log.warn({ account }, 'Sign-in to the rate-limit pages failed')
      reply.code(403)
      return pages.send(reply, 'sign-in', signInContext(request, { account, problem: 'Wrong name or password.' }))
    }
    const cookies = await fromDatabase(staff.startSession(request, account, mountPath(request, depth)))
    request.log.info({ account }, 'Signed in to the rate-limit pages')
    return reply.header('set-cookie', cookies).redirect('./', 303)
  }

  async function signOut(request: FastifyRequest, reply: FastifyReply) {
    const cookie = await fromDatabase(staff.signOut(request, mountPath(request, depth)))
    return reply.header('set-cookie', cookie).redirect('sign-in', 303)
  }

  app.get('/sign-in', staffRoute('sign-in'), showSignIn)
  app.post<{ Body: URLSearchParams | undefined }>(
    '/sign-in',
    { ...staffRoute('sign-in'), onRequest: refuseCrossSite },
    signIn,
  )
  app.post('/sign-out', { ...staffRoute('sign-out'), onRequest: refuseCrossSite }, signOut)
}

/** Returns the context of `sign-in.hbs`, which also is the answer to strangers on every page. */
export function signInContext(
  request: FastifyRequest,
  { account = '', problem, refused = false }: { account?: string; problem?: string; refused?: boolean },
) {
  const atDashboard = staffRouteName(request) === 'dashboard' && !requestedPath(request).endsWith('/')
  return {
    page: { title: 'Sign in', action: atDashboard ? 'dashboard/sign-in' : 'sign-in', account, problem, refused },
  }
}

/** Returns where the host mounted the pages, as the browser spells it: the path without its last `depth` segments. */
function mountPath(request: FastifyRequest, depth: number): string {
  const segments = requestedPath(request).split('/').slice(0, -depth)
  // A semicolon would end the cookie's attribute.
  return segments.join('/').replaceAll(';', '%3B') || '/'
}
