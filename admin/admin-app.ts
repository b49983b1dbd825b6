/** AdminJS in a Fastify app of its own, which the host's plugins, hooks and parsers do not reach. */
import { buildRouter } from '@adminjs/fastify'
import type { AdminJS } from 'adminjs'
import { type FastifyError, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { readRouterOptions } from '../src/http/request-path.js'
import type { Pages } from '../src/staff/shell/pages.js'
import { requestedSearch } from '../src/staff/shell/request-query.js'
import { createScriptGuard } from '../src/staff/shell/same-site.js'
import { ActionDeniedError } from '../src/staff/shell/staff-errors.js'
import type { Guard } from '../src/staff/shell/staff-guard.js'
import type { StaffLimits } from '../src/staff/shell/staff-limits.js'
import { keepMember } from '../src/staff/shell/staff-member.js'
import { NotFoundError } from './error-answers.js'
import { parseForms } from './forms.js'
import { panelUser } from './guard.js'
import { finishPage } from './page.js'
import { createStaticFiles, STYLES } from './static-files.js'

/** A request as the host has it, with its reply. */
interface Outer {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

interface AdminAppOptions {
  readonly admin: AdminJS
  readonly limits: StaffLimits
  readonly pages: Pages
  /** Asked again when a body has arrived. */
  readonly guard: Guard
  readonly answerWithError: (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>
  readonly router: ReturnType<typeof readRouterOptions>
}

/** Creates the app, and returns a function that hands over a request that passed the guard. */
export async function createAdminApp(options: AdminAppOptions) {
  const { admin, limits, pages, guard, answerWithError, router } = options
  const app = fastify({ exposeHeadRoutes: false, routerOptions: router })
  const outers = new WeakMap<object, Outer>()
  const mount = admin.options.rootPath
  const pathOf = ({ routeOptions: { url = '' } }: FastifyRequest) => url.slice(mount.length)
  const isScripted = (request: FastifyRequest) => request.method !== 'GET' || pathOf(request).startsWith('/api/')
  const sendFile = createStaticFiles()
  const refuseForged = createScriptGuard(limits)

  /** @throws NotFoundError for a request that the host did not hand over */
  function outerOf(request: FastifyRequest): Outer {
    const outer = outers.get(request.raw)
    if (outer === undefined) throw new NotFoundError()
    return outer
  }

  app.addHook('onRequest', async (request, reply) => {
    const outer = outerOf(request)
    reply.headers(outer.reply.getHeaders())
    keepMember(outer.request, request)
    // The session is where `@adminjs/fastify` looks for who is signed in.
    Object.assign(request, { session: { adminUser: panelUser(outer.request) } })
    // Pages and files change nothing, and other sites may link to them.
    if (isScripted(request)) await refuseForged(outer.request, reply)
    else if (await sendFile(pathOf(request), request, reply)) return reply
  })
  app.addHook('preHandler', async (request) => {
    const { request: outerRequest, reply } = outerOf(request)
    if (request.body !== undefined) await guard(outerRequest, reply)
    request.query = Object.fromEntries(new URLSearchParams(requestedSearch(request)))
    await requireAction(admin, pathOf(request), request)
  })
  app.addHook('onSend', async (request, reply, payload) => {
    const isPage = reply.statusCode === 200 && !isScripted(request) && typeof payload === 'string'
    return isPage ? finishPage(reply, payload, pages.navigationFor(request)) : payload
  })
  app.setErrorHandler<FastifyError>((error, request, reply) => answerWithError(error, request, reply))
  app.setNotFoundHandler(async () => {
    throw new NotFoundError()
  })
  // The bundler has no work: see static-files.ts.
  admin.initialize = async () => undefined
  await buildRouter(admin, app)
  app.get(mount + STYLES, async () => undefined)
  parseForms(app)
  await app.ready()
  return {
    handOver(outer: Outer): void {
      outers.set(outer.request.raw, outer)
      outer.reply.hijack()
      app.routing(outer.request.raw, outer.reply.raw)
    },
    close: () => app.close(),
  }
}

const NOT_ALLOWED = 'You are not authorized to do this.'
const ROW_ID = /^[1-9]\d{0,14}$/

/**
 * Refuses unknown addresses, at which AdminJS fails, actions of rows, which it takes for actions of the table, and what a
 * role may not do.
 */
async function requireAction(admin: AdminJS, path: string, request: FastifyRequest): Promise<void> {
  const { resourceId, recordId, action } = Object(request.params)
  const resource = admin.resources.find((each) => each.id() === resourceId)
  const actions = resource?.decorate().actions ?? {}
  const requested = Object.hasOwn(actions, String(action)) ? actions[action] : undefined
  const isKnown =
    (path.includes('/actions/') && requested?.isResourceType()) ||
    (path.includes('/records/') && requested?.isRecordType()) ||
    (path.includes('/bulk/') && requested?.isBulkType()) ||
    (path === '/resources/:resourceId' && resource !== undefined)
  const isOfRow = path.includes('/records/')
  const row = isOfRow && ROW_ID.test(String(recordId)) ? ((await resource?.findOne(String(recordId))) ?? null) : null
  // AdminJS would answer that with a status of 200.
  if (requested !== undefined && !requested.isAccessible(panelUser(request), row ?? undefined))
    throw new ActionDeniedError(NOT_ALLOWED)
  // An action without a component has no page: AdminJS would run it as soon as the page is opened.
  const isThere = path.startsWith('/api/') || requested?.toJSON().component !== false
  if (!isKnown || !isThere || (isOfRow && row === null)) throw new NotFoundError()
}
