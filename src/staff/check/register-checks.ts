/** The routes of checks, which only an app with checks loads. */
import { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Consumable, Consume, ConsumedRequest } from '../../http/consume.js'
import { forbidStoring } from '../../http/discarded-headers.js'
import type { Parts } from '../../plugin/parts.js'
import {
  answerWithProblem,
  asInputError,
  InvalidInputError,
  MethodError,
  NotFoundError,
  toProblem,
} from '../api/problems.js'
import type { StaffLimits } from '../shell/staff-limits.js'
import { hiddenSchema } from '../shell/staff-routes.js'
import { type CheckGuardOptions, createCheckGuard } from './check-guard.js'
import { checkDocument } from './open-api.js'
import { readOriginalRequest } from './original-request.js'

/** The most requests of a batch. */
const MAX_BATCH = 100
const BODY_LIMIT = 256 * 1024
const FORWARD = '/forward'
/** No rule applies to the routes: a refusal of theirs would refuse all that is behind the proxy. */
const ROUTE = { config: { smartRateLimit: false }, bodyLimit: BODY_LIMIT, schema: hiddenSchema() } as const

/** The servers whose requests with the method CONNECT are answered. */
const ANSWERED = new WeakSet<FastifyInstance['server']>()

/** @param app a scope of the checks alone */
export async function registerChecks(
  app: FastifyInstance,
  parts: StaffLimits & Pick<Parts, 'hook' | 'staffLog'>,
  guard: CheckGuardOptions,
): Promise<void> {
  const consumer = await parts.hook.consumer()
  // A client may have sent a header of such a name: it must not make the whole batch a 400. They stay what they are, fields.
  const parse = app.getDefaultJsonParser('ignore', 'ignore')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, parse)
  app.setErrorHandler<FastifyError>((error, request, reply) => answerWithProblem(parts.staffLog, error, request, reply))
  app.addHook('onRequest', setHeaders)
  app.addHook('onRequest', createCheckGuard(parts, guard))

  app.post('/', ROUTE, async ({ body }, reply) => {
    reply.type('application/json; charset=utf-8')
    return JSON.stringify(Array.isArray(body) ? await checkBatch(consumer, body) : await checkOne(consumer, body))
  })
  app.get('/openapi.json', ROUTE, async () => checkDocument(app.prefix))

  const prefix = `${app.prefix}${FORWARD}`
  const noSuchAddress = () => new NotFoundError(`There is no such address: checks are at ${app.prefix} and ${prefix}.`)

  async function forward(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const behind = pathBehind(request, prefix)
    // Another spelling of the prefix would hide the path behind it.
    if (behind === '' && request.routeOptions.url?.endsWith('*')) throw noSuchAddress()
    // Caddy adds the query of the request to this one.
    const isRefused403 = behind.startsWith('?') && new URLSearchParams(behind).get('refused') === '403'
    const original = readOriginalRequest(request, behind.startsWith('/') ? behind : '')
    const { status, headers, body } = await checkOne(consumer, original)
    return reply
      .headers(headers)
      .code(status === null ? 204 : isRefused403 ? 403 : status)
      .send(body ?? undefined)
  }

  // It answers before a body is read: what proxies send of it says nothing.
  const forwarding = { ...ROUTE, onRequest: forward, handler: async () => undefined }
  for (const url of [FORWARD, `${FORWARD}/*`]) app.route({ ...forwarding, method: app.supportedMethods, url })
  answerConnect(app)
  // Methods that the router does not know get here as well.
  const notFound = { ...ROUTE, preHandler: [] }
  app.setNotFoundHandler(notFound, async (request, reply) => {
    const { url = '' } = request.raw
    if (url.startsWith(prefix) && /^[/?]?$/.test(url.charAt(prefix.length))) return forward(request, reply)
    if (pathBehind(request, app.prefix).length > 1) {
      throw noSuchAddress()
    }
    reply.header('allow', 'POST')
    throw new MethodError('This address accepts POST.')
  })
}

/**
 * Has the app answer requests with the method CONNECT, whose connections Node.js closes without an answer unless
 * somebody listens. HTTP/2 answers them by itself.
 */
function answerConnect({ server, routing, initialConfig: { http2 } }: FastifyInstance): void {
  if (http2 || ANSWERED.has(server)) return
  ANSWERED.add(server)
  server.on('connect', (request, socket) => {
    // A host that listens itself answers all of them.
    if (server.listenerCount('connect') > 1 || !(socket instanceof Socket)) return
    // Node.js leaves the errors of such a connection to the listener.
    socket.on('error', () => socket.destroy())
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    response.once('finish', () => socket.end())
    routing(request, response)
  })
}

async function setHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  forbidStoring(reply)
  reply.header('x-content-type-options', 'nosniff')
}

async function checkOne({ prepare, consumeAll }: Consume, body: unknown): Promise<ConsumedRequest> {
  const [answer] = await consumeAll([asInput(() => prepare(body))])
  if (answer === undefined) throw new RangeError('no answer to a check')
  return answer
}

/** Answers in the order of a batch, with a problem in the place of what is no request. */
async function checkBatch({ prepare, consumeAll }: Consume, batch: readonly unknown[]): Promise<object[]> {
  if (batch.length > MAX_BATCH) {
    const detail = `has ${batch.length} requests: send at most ${MAX_BATCH} at a time`
    throw new InvalidInputError([{ in: 'body', field: '', detail }])
  }
  const problems: (object | undefined)[] = []
  const prepared = batch.flatMap((options, index): Consumable[] => {
    try {
      return [asInput(() => prepare(options))]
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error
      problems[index] = toProblem(error)
      return []
    }
  })
  const answers = (await consumeAll(prepared)).values()
  return batch.map((_options, index) => problems[index] ?? Object(answers.next().value))
}

function asInput(work: () => Consumable): Consumable {
  try {
    return work()
  } catch (error) {
    throw asInputError(error)
  }
}

/** Returns what of the target is behind a prefix, as the proxy sent it; empty where it is spelled otherwise. */
function pathBehind({ raw: { url = '' } }: FastifyRequest, prefix: string): string {
  return url.startsWith(prefix) ? url.slice(prefix.length) : ''
}
