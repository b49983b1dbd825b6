import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.js'
import { InvalidSettingError } from '../errors.js'
import { internalsOf } from '../internals.js'
import { createErrorHandler } from './error-page.js'
import type { Pages } from './pages.js'
import { registerReportRoutes } from './report-routes.js'
import { registerSignInRoutes } from './sign-in-routes.js'
import type { StaffAccounts } from './staff-accounts.js'
import { accountStaff, createStaffGuard, hostStaff, type IsStaff, nobodyIsStaff } from './staff-guard.js'
import { checkIsStaff, checkKnownOptions } from './staff-options.js'

export interface DashboardOptions {
  /**
   * Whether a request comes from staff, for hosts with a sign-in of their own. Only `true` lets it in; a throw is a
   * refusal. It runs in an `onRequest` hook, after those the host registered before.
   */
  readonly isStaff?: IsStaff | undefined
  /** What `staffAccounts()` answered, for hosts without a sign-in. */
  readonly accounts?: StaffAccounts | undefined
  /** A folder whose files replace the package's templates, each by its name: `dashboard.hbs`, `style.css`, …. */
  readonly templates?: string | undefined
}

/** Those of this plugin, and those that Fastify takes for every plugin. */
const KNOWN_OPTIONS = ['isStaff', 'accounts', 'templates', 'prefix', 'logLevel', 'logSerializers']

/**
 * The staff pages, below the prefix it is registered with: `dashboard/` (HTML), `dashboard/offenders.csv`,
 * `dashboard/offender/?key=` (JSON) and `dashboard/offender.html?key=`. Without `isStaff` and `accounts` they refuse
 * everybody.
 *
 * @throws InvalidSettingError for a wrong or unknown option
 */
export async function dashboardPlugin(app: FastifyInstance, options: DashboardOptions): Promise<void> {
  checkOptions(options)
  const { isStaff, accounts, templates } = options
  const internals = internalsOf(app)
  if (isStaff === undefined && accounts === undefined) {
    app.log.warn('dashboardPlugin has neither isStaff nor accounts: it refuses everybody')
  }
  // The template engine is loaded where there are pages.
  const { registerPages } = await import('./pages.js')
  const pages = await registerPages(app, templates, accounts !== undefined)
  app.setErrorHandler(createErrorHandler(pages, accounts !== undefined))
  app.addHook('onRequest', securityHeaders(pages))

  // Two scopes, since nobody can be signed in already where people sign in.
  const prefix = '/dashboard'
  const mount = `${app.prefix}${prefix}/`
  internals.places.dashboards.push(mount)
  if (accounts !== undefined) {
    app.register(async (scope) => registerSignInRoutes(scope, internals, accounts, pages, 2), { prefix })
  }
  app.register(
    async (scope) => {
      scope.addHook('onRequest', createStaffGuard(internals, staffCheck(isStaff, accounts, internals.clock)))
      registerReportRoutes(scope, internals, pages, mount)
    },
    { prefix },
  )
}

function staffCheck(isStaff: IsStaff | undefined, accounts: StaffAccounts | undefined, clock: Clock): IsStaff {
  if (accounts !== undefined) return accountStaff(accounts)
  return isStaff === undefined ? nobodyIsStaff : hostStaff(isStaff, clock)
}

function securityHeaders({ contentSecurityPolicy }: Pages) {
  return async function setSecurityHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.headers({
      'cache-control': 'no-store',
      'content-security-policy': contentSecurityPolicy,
      'x-content-type-options': 'nosniff',
      // With `no-referrer`, browsers send a form's Origin as `null`, and the check for foreign forms needs it.
      'referrer-policy': 'same-origin',
    })
  }
}

function checkOptions(options: DashboardOptions): void {
  const { isStaff, accounts, templates } = options
  checkKnownOptions('dashboardPlugin', options, KNOWN_OPTIONS)
  checkIsStaff(isStaff)
  if (accounts !== undefined && typeof accounts?.isStaff !== 'function') {
    throw new InvalidSettingError('Option "accounts" is not what staffAccounts({ accounts, sessionSecret }) answers')
  }
  if (isStaff !== undefined && accounts !== undefined) {
    throw new InvalidSettingError('Options "isStaff" and "accounts" are both given: decide who tells who is staff')
  }
  if (templates !== undefined && typeof templates !== 'string') {
    throw new InvalidSettingError(`Option "templates" is ${String(templates)}: give the path of a folder`)
  }
}
