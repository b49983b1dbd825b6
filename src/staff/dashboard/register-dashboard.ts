/** Registers the pages of the dashboard: their guard, navigation and headers, and the sign-in. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { forbidStoring } from '../../http/discarded-headers.js'
import type { Parts } from '../../plugin/parts.js'
import { nearestMount } from '../../plugin/staff-mounts.js'
import { createErrorHandler } from '../shell/error-page.js'
import { type Navigation, NO_NAVIGATION, navigationLinks } from '../shell/navigation.js'
import { type Pages, readPages } from '../shell/pages.js'
import type { StaffRole } from '../shell/roles.js'
import { addGuard, createStaffGuard, type StaffOptions, staffCheck } from '../shell/staff-guard.js'
import { isPageRoute, presentPage } from '../shell/staff-routes.js'
import { registerSignInRoutes } from '../sign-in/sign-in-routes.js'
import { registerReportRoutes } from './dashboard-routes.js'
import { keptFields, keptHref } from './links.js'
import { keptView } from './requested-view.js'

export interface DashboardOptions extends StaffOptions {
  /** A folder whose files replace the package's templates, each by its name: `dashboard.hbs`, `style.css`, …. */
  readonly templates?: string | undefined
}

export async function registerDashboard(app: FastifyInstance, parts: Parts, options: DashboardOptions): Promise<void> {
  const { staff, templates } = options
  const prefix = '/dashboard'
  const mount = `${app.prefix}${prefix}/`
  const navigation = navigationAt(parts, mount, staff !== undefined)
  const pages = await readPages({ folder: templates, navigation })
  app.setErrorHandler(createErrorHandler(parts, pages, staff === undefined ? undefined : mount))
  app.addHook('onRequest', securityHeaders(pages))

  // Two scopes, since the sign-in page must not require a sign-in.
  parts.mounts.dashboards.push(mount)
  if (staff !== undefined) {
    app.register(async (scope) => registerSignInRoutes(scope, parts, staff, pages, 2), { prefix })
  }
  app.register(
    async (scope) => {
      addGuard(scope, createStaffGuard(parts, staffCheck(options, parts.clock)))
      registerReportRoutes(scope, parts, pages, mount)
    },
    { prefix },
  )
}

function navigationAt({ mounts, clock }: Pick<Parts, 'mounts' | 'clock'>, mount: string, canSignOut: boolean) {
  return function navigation(request: FastifyRequest, role: StaffRole): Navigation {
    // The relative links would be wrong at other addresses.
    if (!isPageRoute(request)) return NO_NAVIGATION
    const present = presentPage(request)
    const kept = keptView(request, clock.now())
    return {
      links: navigationLinks('./', nearestMount(mounts.panels, mount), role).map(({ text, href }) => ({
        text,
        href: kept === undefined || !href.startsWith('./') ? href : keptHref(href, kept),
        current: href === present || href === `./${present}`,
      })),
      search: 'search.html',
      ...(kept !== undefined && { kept: keptFields(kept) }),
      ...(canSignOut && { sign_out: 'sign-out' }),
    }
  }
}

function securityHeaders({ contentSecurityPolicy }: Pages) {
  return async function setSecurityHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
    forbidStoring(reply)
    reply.headers({
      'content-security-policy': contentSecurityPolicy,
      'x-content-type-options': 'nosniff',
      // Browsers send a form's Origin as `null` with `no-referrer`, and the check for foreign forms needs it.
      'referrer-policy': 'same-origin',
    })
  }
}
