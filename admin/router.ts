import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { buildRouter } from '@adminjs/fastify'
import { type AdminJS, Router } from 'adminjs'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { readRouterOptions } from '../src/http/request-path.js'
import { asActor } from '../src/rules/history/actor.js'
import type { Pages } from '../src/staff/shell/pages.js'
import { requestedSearch } from '../src/staff/shell/request-query.js'
import { ActionDeniedError } from '../src/staff/shell/staff-errors.js'
import { keepMember } from '../src/staff/shell/staff-member.js'
import { hiddenSchema } from '../src/staff/shell/staff-routes.js'
import { componentScript, panelStyles } from './component-script.js'
import { NotFoundError } from './error-answers.js'
import { panelUser } from './guard.js'
import { finishPage } from './page.js'
import { PanelResource } from './panel-resource.js'

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}
/** The panel's own style sheet, beside AdminJS's. */
export const STYLES = '/frontend/assets/panel.css'
const COMPONENTS = '/frontend/assets/components.bundle.js'
/** How long browsers keep AdminJS's own files, in seconds. */
const KEPT_S = 3_600

/**
 * Adds the routes of AdminJS as `@adminjs/fastify` creates them, and replaces what does not fit into a host: that
 * package registers multipart again, takes the actor from the host's session, and serves scripts that were bundled in
 * the working directory when the server started.
 *
 * @param rootPath relative to the prefix of `app`
 */
export async function addPanelRoutes(
  app: FastifyInstance,
  admin: AdminJS,
  rootPath: string,
  pages: Pages,
): Promise<void> {
  // Nothing is bundled: see component-script.ts.
  admin.initialize = async () => undefined
  const routes = { app, mount: admin.options.rootPath, rootPath }
  const script = componentScript()
  addRoute(routes, 'GET', COMPONENTS, async (_request, reply) => reply.type(CONTENT_TYPES['.js'] ?? '').send(script))
  const styles = panelStyles()
  addRoute(routes, 'GET', STYLES, async (_request, reply) => reply.type(CONTENT_TYPES['.css'] ?? '').send(styles))
  for (const { path, src } of Router.assets) {
    if (path !== COMPONENTS) addRoute(routes, 'GET', path, serveFile(src))
  }
  const served = new Set([COMPONENTS, ...Router.assets.map(({ path }) => path)])
  const add = (method: 'GET' | 'POST') => (url: string, handler: RouteHandlerMethod) => {
    const path = url.slice(routes.mount.length)
    // No field refers to a row of another table, so that no search is needed.
    if (served.has(path) || path.includes('/search')) return
    addRoute(routes, method, path, asKnownActor(app, pages, whereThereIs(admin, path, handler)))
  }
  const shell = { register: async () => undefined, get: add('GET'), post: add('POST') }
  // It uses only these three members of an app.
  await buildRouter(admin, shell as unknown as FastifyInstance)
}

interface Routes {
  readonly app: FastifyInstance
  readonly mount: string
  readonly rootPath: string
}

const RECORD = ':recordId/:action'

function addRoute({ app, rootPath }: Routes, method: 'GET' | 'POST', path: string, handler: RouteHandlerMethod): void {
  // Fastify limits parameters to 100 characters, and the id of a counter is longer; wildcards have no limit.
  const url = `${rootPath}${path.replace(RECORD, '*')}`
  // No HEAD route, since AdminJS takes every method except GET for a change.
  const route = { method, exposeHeadRoute: false, config: { smartRateLimit: false }, handler } as const
  app.route({ ...route, url, schema: hiddenSchema() })
  // Where the host's router ignores the slash, it is the same route.
  if (path === '' && !readRouterOptions(app).ignoreTrailingSlash) {
    app.route({ ...route, url: `${url}/`, schema: hiddenSchema() })
  }
}

/** Serves AdminJS's files for production, whatever NODE_ENV is: the others are ten times their size. */
function serveFile(source: string): RouteHandlerMethod {
  const file = source.replace(/([.-]bundle)\.development\.js$/, '$1.production.js')
  return async function sendFile(_request, reply) {
    const type = CONTENT_TYPES[extname(file)] ?? 'application/octet-stream'
    return reply
      .type(type)
      .header('cache-control', `private, max-age=${KEPT_S}`)
      .send(await readFile(file))
  }
}

/** Calls a handler of AdminJS as the actor who passed the guard, since the session that it reads is the host's. */
function asKnownActor(app: FastifyInstance, pages: Pages, handler: RouteHandlerMethod): RouteHandlerMethod {
  return function handleAsActor(request: FastifyRequest, reply: FastifyReply) {
    const adminUser = panelUser(request)
    const known: FastifyRequest = Object.create(request, {
      session: { value: { adminUser } },
      params: { value: splitWildcard(request.params) },
      query: { value: plainQuery(request) },
    })
    keepMember(request, known)
    // A text is a page; every other payload is for its scripts.
    function send(payload: unknown): FastifyReply {
      if (typeof payload !== 'string') return reply.send(payload)
      return reply.send(finishPage(reply, payload, pages.navigationFor(request)))
    }
    const answer: FastifyReply = Object.create(reply, { send: { value: send } })
    return asActor(adminUser.email, async () => handler.call(app, known, answer))
  }
}

const NOT_ALLOWED = 'You are not authorized to do this.'

/**
 * Refuses unknown addresses, at which AdminJS fails, actions of rows, which it takes for actions of the table, and what a
 * role may not do.
 */
function whereThereIs(admin: AdminJS, path: string, handler: RouteHandlerMethod): RouteHandlerMethod {
  return async function handleKnown(this: FastifyInstance, request, reply) {
    const { resourceId, recordId, action } = Object(request.params)
    const resource = admin.resources.find((each) => each.id() === resourceId)
    const actions = resource?.decorate().actions ?? {}
    const known = Object.hasOwn(actions, String(action)) ? actions[action] : undefined
    const isKnown =
      (path.includes('/actions/') && known?.isResourceType()) ||
      (path.includes('/records/') && known?.isRecordType()) ||
      (path.includes('/bulk/') && known?.isBulkType()) ||
      (action === undefined && (resourceId === undefined || resource !== undefined))
    const isOfRow = path.includes('/records/') && recordId !== undefined && resource instanceof PanelResource
    const row = isOfRow ? await resource.findOne(String(recordId)) : null
    // AdminJS would answer that with a status of 200.
    if (known !== undefined && !known.isAccessible(panelUser(request), row ?? undefined))
      throw new ActionDeniedError(NOT_ALLOWED)
    // An action without a component has no page: AdminJS would run it as soon as the page is opened.
    const isThere = path.startsWith('/api/') || known?.toJSON().component !== false
    if (!isKnown || !isThere) throw new NotFoundError()
    // The page would say so too, but with a status of 200.
    if (isOfRow && row === null && !path.startsWith('/api/')) throw new NotFoundError()
    return handler.call(this, request, reply)
  }
}

/**
 * Returns each parameter once, as a text, from the URL itself, since the shape of `request.query` is the host's choice.
 * Names that every object has are left out: AdminJS would take them for fields.
 */
function plainQuery(request: FastifyRequest): Readonly<Record<string, string>> {
  const parameters = [...new URLSearchParams(requestedSearch(request))]
  return Object.fromEntries(
    parameters.filter(([name]) => !name.split(/\.|~~/).some((part) => part in Object.prototype)),
  )
}

/** Splits the wildcard into the parameters of `RECORD`. */
function splitWildcard(params: unknown): Readonly<Record<string, unknown>> {
  const { '*': rest, ...named } = params as Readonly<Record<string, unknown>>
  if (typeof rest !== 'string') return named
  const end = rest.lastIndexOf('/')
  return { ...named, recordId: rest.slice(0, Math.max(end, 0)), action: rest.slice(end + 1) }
}
