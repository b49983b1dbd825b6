import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../errors.js'
import { internalsFor } from '../internals.js'
import { createErrorHandler } from '../sign-in/error-page.js'
import type { Pages } from '../sign-in/pages.js'
import { registerSignInRoutes } from '../sign-in/sign-in-routes.js'
import { accountStaff, createStaffGuard, hostStaff, type IsStaff, refuseAll } from '../sign-in/staff-guard.js'
import { type StaffOptions, validateStaffOptions } from '../sign-in/staff-options.js'
import type { Clock } from '../time/clock.js'

export interface DashboardOptions extends StaffOptions {
  /** A folder whose files replace the package's templates, each by its name: `dashboard.hbs`, `style.css`, …. */
  readonly templates?: string | undefined
}

/**
 * Registers the staff pages below its prefix: `dashboard/` (HTML), `dashboard/offenders.csv`,
 * `dashboard/offender/?key=` (JSON) and `dashboard/offender.html?key=`. Without `staff` and `isStaff` they refuse every
 * request.
 *
 * @throws InvalidSettingError for an invalid or unknown option
 */
export async function dashboardPlugin(app: FastifyInstance, options: DashboardOptions): Promise<void> {
  validateDashboardOptions(options)
  const { staff, isStaff, templates } = options
  const internals = internalsFor(app)
  if (staff === undefined && isStaff === undefined) {
    app.log.warn('dashboardPlugin has neither staff nor isStaff: it refuses every request')
  }
  // Only apps with pages load the template engine, and what the pages show.
  const [{ registerPages }, { registerReportRoutes }] = await Promise.all([
    import('../sign-in/pages.js'),
    import('./report-routes.js'),
  ])
  const pages = await registerPages(app, templates, staff !== undefined)
  app.setErrorHandler(createErrorHandler(pages, staff !== undefined))
  app.addHook('onRequest', securityHeaders(pages))

  // Two scopes, since the sign-in page must not require a sign-in.
  const prefix = '/dashboard'
  const mount = `${app.prefix}${prefix}/`
  internals.places.dashboards.push(mount)
  if (staff !== undefined) {
    app.register(async (scope) => registerSignInRoutes(scope, internals, staff, pages, 2), { prefix })
  }
  app.register(
    async (scope) => {
      scope.addHook('onRequest', createStaffGuard(internals, staffCheck(options, internals.clock)))
      registerReportRoutes(scope, internals, pages, mount)
    },
    { prefix },
  )
}

function staffCheck({ staff, isStaff }: StaffOptions, clock: Clock): IsStaff {
  if (staff !== undefined) return accountStaff(staff)
  return isStaff === undefined ? refuseAll : hostStaff(isStaff, clock)
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

function validateDashboardOptions(options: DashboardOptions): void {
  const { templates } = options
  validateStaffOptions('dashboardPlugin', options, ['templates'])
  if (templates !== undefined && typeof templates !== 'string') {
    throw new InvalidSettingError(`Option "templates" is ${String(templates)}: give the path of a folder`)
  }
}
