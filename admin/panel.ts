import { AdminJS, ComponentLoader } from 'adminjs'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { internalsFor } from '../src/plugin/internals.js'
import { registerPages } from '../src/staff/shell/pages.js'
import { createScriptGuard } from '../src/staff/shell/same-site.js'
import { addGuard, createStaffGuard } from '../src/staff/shell/staff-guard.js'
import { staffRoute } from '../src/staff/shell/staff-routes.js'
import { registerSignInRoutes } from '../src/staff/sign-in/sign-in-routes.js'
import { createErrorHandler, NotFoundError } from './error-answers.js'
import { exchangePage } from './exchange.js'
import { parseForms } from './forms.js'
import { createPanelCheck } from './guard.js'
import { homePage } from './home.js'
import { loadClientAtStart } from './load-client.js'
import { createPanelNavigation, TEXTS } from './navigation.js'
import type { AdminOptions } from './options.js'
import { setSecurityHeaders } from './page.js'
import { createResources } from './resources/index.js'
import type { AdminResource } from './resources/resource.js'
import { addPanelRoutes, STYLES } from './router.js'
import { THEME } from './theme.js'

/** Registers the panel in `app`, a scope of its own. */
export async function registerPanel(app: FastifyInstance, rootPath: string, options: AdminOptions): Promise<void> {
  const internals = internalsFor(app)
  loadClientAtStart(app, internals)
  const mount = `${app.prefix}${rootPath}`
  internals.mounts.panels.push(mount)
  const { staff, isStaff } = options
  if (staff === undefined && isStaff === undefined) {
    app.log.warn('adminPlugin has neither staff nor isStaff: it refuses every request')
  }
  const resources = createResources(app, mount)
  const navigation = createPanelNavigation(internals, mount, resources, staff !== undefined)
  const pages = await registerPages(app, { navigation })
  app.setErrorHandler(createErrorHandler(internals, pages, mount, staff !== undefined))
  app.addHook('onRequest', setSecurityHeaders)

  // Two scopes, since the routes to sign in have no guard.
  if (staff !== undefined) {
    app.register(
      async (scope) => {
        scope.addHook('onRequest', async (_request, reply) => {
          reply.header('content-security-policy', pages.contentSecurityPolicy)
        })
        registerSignInRoutes(scope, internals, staff, pages, 1)
      },
      { prefix: rootPath },
    )
  }
  app.register(async (scope) => {
    addGuard(scope, createStaffGuard(internals, createPanelCheck(options, internals)))
    const refuseForged = createScriptGuard(internals)
    scope.addHook('onRequest', async (request, reply) => {
      // Pages and scripts change nothing, and other sites may link to them.
      if (!isPage(request, rootPath)) await refuseForged(request, reply)
    })
    parseForms(scope)
    await addPanelRoutes(scope, createAdmin(scope, mount, resources, staff !== undefined), rootPath, pages)
    scope.route({
      ...staffRoute('not-found'),
      exposeHeadRoute: false,
      method: scope.supportedMethods,
      url: `${rootPath}/*`,
      handler: async () => {
        throw new NotFoundError()
      },
    })
  })
}

/** The icon of the staff pages; without it browsers request one from the host. */
const FAVICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#1f55c7" stroke-width="2.5"><path d="M4 17a8.5 8.5 0 1 1 16 0M12 15l4.5-5"/></svg>',
)}`

/** Returns whether a request is for a page or a script, by its route and not by the spelling of its address. */
function isPage({ routeOptions: { url = '' }, method, server }: FastifyRequest, rootPath: string): boolean {
  const path = url.slice(`${server.prefix}${rootPath}`.length)
  return method === 'GET' && !path.startsWith('/api/')
}

function createAdmin(
  app: FastifyInstance,
  mount: string,
  resources: readonly AdminResource[],
  canSignIn: boolean,
): AdminJS {
  const internals = internalsFor(app)
  const limits = app.smartRateLimit
  const admin = new AdminJS({
    rootPath: mount,
    loginPath: `${mount}/sign-in`,
    logoutPath: canSignIn ? `${mount}/sign-out` : '',
    componentLoader: new ComponentLoader(),
    assets: { styles: [`${mount}${STYLES}`] },
    branding: { companyName: 'Rate limits', logo: false, withMadeWithLove: false, favicon: FAVICON, theme: THEME },
    dashboard: homePage(internals, limits, mount),
    pages: { exchange: exchangePage(limits) },
    locale: { language: 'en', translations: { en: TEXTS } },
  })
  for (const { resource, options } of resources) {
    // Added without AdminJS's factory, which would use adapters that the host registered for its own AdminJS.
    resource.assignDecorator(admin, options)
    admin.resources.push(resource)
  }
  return admin
}
