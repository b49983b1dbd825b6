import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Pages } from '../shell/pages.js'
import { requestedPath, returnAddress } from '../shell/request-query.js'
import { createCrossSiteGuard } from '../shell/same-site.js'
import { parseStaffForms, type StaffForm } from '../shell/staff-actions.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { countSignIn, type StaffLimits, verifyInTurn } from '../shell/staff-limits.js'
import { staffRoute, staffRouteName } from '../shell/staff-routes.js'
import type { StaffAccounts } from './staff-accounts.js'

/** Room for a name, a password, and the encoded address of a page. */
const BODY_LIMIT = 16_384

/** @param depth how many segments of the path of these routes follow the mount's: `/dashboard/sign-in` has two */
export function registerSignInRoutes(
  app: FastifyInstance,
  limits: StaffLimits,
  staff: StaffAccounts,
  pages: Pages,
  depth: number,
): void {
  parseStaffForms(app, BODY_LIMIT)
  const refuseCrossSite = createCrossSiteGuard(limits)

  async function showSignIn(request: FastifyRequest, reply: FastifyReply) {
    if (await fromDatabase(staff.isStaff(request))) return reply.redirect('./')
    return pages.send(reply, 'sign-in', signInContext(request, {}))
  }

  async function signIn(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const account = request.body?.get('account') ?? ''
    const password = request.body?.get('password') ?? ''
    const to = request.body?.get('to') ?? ''
    const browser = staff.knownBrowser(request, account)
    await countSignIn(limits, request, reply, account, browser)
    const isRight = await verifyInTurn(reply, browser !== undefined, () => staff.verify({ account, password }))
    if (!isRight) {
      request.log.warn({ account }, 'Sign-in to the rate-limit pages failed')
      reply.code(403)
      return pages.send(reply, 'sign-in', signInContext(request, { account, to, problem: 'Wrong name or password.' }))
    }
    const cookies = await fromDatabase(staff.startSession(request, account, mountPath(request, depth)))
    request.log.info({ account }, 'Signed in to the rate-limit pages')
    return reply.header('set-cookie', cookies).redirect(returnAddress(to), 303)
  }

  async function signOut(request: FastifyRequest, reply: FastifyReply) {
    const cookie = await fromDatabase(staff.signOut(request, mountPath(request, depth)))
    return reply.header('set-cookie', cookie).redirect('sign-in', 303)
  }

  app.get('/sign-in', staffRoute('sign-in'), showSignIn)
  app.post<{ Body: StaffForm }>('/sign-in', { ...staffRoute('sign-in'), onRequest: refuseCrossSite }, signIn)
  app.post('/sign-out', { ...staffRoute('sign-out'), onRequest: refuseCrossSite }, signOut)
}

interface SignInState {
  readonly account?: string
  readonly problem?: string
  readonly refused?: boolean
  /** The address of the page to go on to, relative to the mount. */
  readonly to?: string
}

/** Returns the context of `sign-in.hbs`, which also is the answer to strangers on every page. */
export function signInContext(
  request: FastifyRequest,
  { account = '', problem, refused = false, to = '' }: SignInState,
) {
  const atDashboard = staffRouteName(request) === 'dashboard' && !requestedPath(request).endsWith('/')
  return {
    page: {
      title: 'Sign in',
      action: atDashboard ? 'dashboard/sign-in' : 'sign-in',
      account,
      problem,
      refused,
      unchanged: refused && request.method === 'POST',
      again: request.method === 'POST' ? returnAddress(to) : '',
      to,
    },
  }
}

/** Returns where the host mounted the pages, as the browser spells it: the path without its last `depth` segments. */
function mountPath(request: FastifyRequest, depth: number): string {
  const segments = requestedPath(request).split('/').slice(0, -depth)
  // A semicolon would end the cookie's attribute.
  return segments.join('/').replaceAll(';', '%3B') || '/'
}
