import { AdminJS, ComponentLoader } from 'adminjs'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { readRouterOptions } from '../src/http/request-path.js'
import { pluginParts } from '../src/plugin/parts.js'
import { readPages } from '../src/staff/shell/pages.js'
import { addGuard, createStaffGuard } from '../src/staff/shell/staff-guard.js'
import { staffRoute } from '../src/staff/shell/staff-routes.js'
import { registerSignInRoutes } from '../src/staff/sign-in/sign-in-routes.js'
import { createAdminApp } from './admin-app.js'
import { createErrorHandler } from './error-answers.js'
import { BODY_LIMIT } from './forms.js'
import { createPanelCheck } from './guard.js'
import { loadClientAtStart } from './load-client.js'
import { createPanelNavigation, TEXTS } from './navigation.js'
import type { AdminOptions } from './options.js'
import { setSecurityHeaders } from './page.js'
import { createResources } from './resources/index.js'
import type { AdminResource } from './resources/resource.js'
import { STYLES } from './static-files.js'

/** Registers the panel in `app`, a scope of its own. */
export async function registerPanel(app: FastifyInstance, rootPath: string, options: AdminOptions): Promise<void> {
  const parts = pluginParts(app)
  loadClientAtStart(app, parts)
  const mount = `${app.prefix}${rootPath}`
  parts.mounts.panels.push(mount)
  const { staff, isStaff } = options
  if (staff === undefined && isStaff === undefined) {
    app.log.warn('adminPlugin has neither staff nor isStaff: it refuses every request')
  }
  const resources = createResources(app)
  const navigation = createPanelNavigation(parts.mounts, mount, staff !== undefined)
  const pages = await readPages({ navigation })
  const answerWithError = createErrorHandler(parts, pages, mount, staff !== undefined)
  app.setErrorHandler(answerWithError)
  app.addHook('onRequest', setSecurityHeaders)

  // Two scopes, since the routes to sign in have no guard.
  if (staff !== undefined) {
    app.register(
      async (scope) => {
        scope.addHook('onRequest', async (_request, reply) => {
          reply.header('content-security-policy', pages.contentSecurityPolicy)
        })
        registerSignInRoutes(scope, parts, staff, pages, 1)
      },
      { prefix: rootPath },
    )
  }
  const guard = createStaffGuard(parts, createPanelCheck(options, parts.clock))
  app.register(async (scope) => {
    addGuard(scope, guard)
    const router = readRouterOptions(app)
    const admin = createAdmin(mount, resources, staff !== undefined)
    const adminApp = await createAdminApp({ admin, limits: parts, pages, guard, answerWithError, router })
    scope.addHook('onClose', () => adminApp.close())
    // AdminJS's app reads the body.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    const route = { ...staffRoute('not-found'), exposeHeadRoute: false, bodyLimit: BODY_LIMIT } as const
    const openFirst = async (_request: FastifyRequest, reply: FastifyReply) =>
      reply.redirect(`${mount}/resources/rules`)
    scope.get(rootPath, route, openFirst)
    if (!router.ignoreTrailingSlash) scope.get(`${rootPath}/`, route, openFirst)
    scope.route({
      ...route,
      method: scope.supportedMethods,
      url: `${rootPath}/*`,
      handler: (request, reply) => adminApp.handOver({ request, reply }),
    })
  })
}

/** The icon of the staff pages; without it browsers request one from the host. */
const FAVICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#1f55c7" stroke-width="2.5"><path d="M4 17a8.5 8.5 0 1 1 16 0M12 15l4.5-5"/></svg>',
)}`

function createAdmin(mount: string, resources: readonly AdminResource[], canSignIn: boolean): AdminJS {
  const admin = new AdminJS({
    rootPath: mount,
    loginPath: `${mount}/sign-in`,
    logoutPath: canSignIn ? `${mount}/sign-out` : '',
    componentLoader: new ComponentLoader(),
    assets: { styles: [`${mount}${STYLES}`] },
    branding: { companyName: 'Rate limits', logo: false, withMadeWithLove: false, favicon: FAVICON },
    locale: { language: 'en', translations: { en: TEXTS } },
  })
  for (const { resource, options } of resources) {
    // Added without AdminJS's factory, which would use adapters that the host registered for its own AdminJS.
    resource.assignDecorator(admin, options)
    admin.resources.push(resource)
  }
  return admin
}
