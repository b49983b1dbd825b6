/** A real server on a port of its own, with what a test needs to look at it: its log, its clock, its database. */
import { Writable } from 'node:stream'
import type { TestContext } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import type { RateLimitOptions } from '../../src/plugin/settings/options.js'
import { atEnd } from './at-end.js'
import { type FakeClock, fakeClock } from './clock.js'
import { openTestDatabase, type Provider, type TestDatabase } from './databases.js'
import { type Answer, createHttpClient, type RequestOptions } from './http-client.js'

export interface LogLine {
  /** 40 is a warning, 50 an error. */
  readonly level: number
  readonly time: number
  readonly msg: string
  readonly err?: { readonly message: string }
  /** The first line of what `err` says about it. */
  readonly cause?: string
}

export const WARN = 40
export const ERROR = 50

export interface TestApp {
  readonly app: FastifyInstance
  readonly origin: string
  readonly port: number
  readonly clock: FakeClock
  /** The lines that were logged at level `warn` or above. */
  readonly log: LogLine[]
  request(path: string, options?: RequestOptions): Promise<Answer>
  /** Asks the same so many times, one after the other, and answers the status codes. */
  statuses(times: number, path: string, options?: RequestOptions): Promise<number[]>
}

export interface AppOptions {
  readonly clock?: FakeClock
  readonly plugin?: RateLimitOptions
  /** The database of the events, rules and counters, or the kind of a new one; with `null` the counters are in memory. */
  readonly database: TestDatabase | Provider | null
  readonly fastify?: FastifyServerOptions
  /** The port to listen on unless it is taken; by default any. */
  readonly port?: number
  /** Declares routes, after the plugin. */
  readonly routes?: (app: FastifyInstance) => void | Promise<void>
  /** Declares routes, hooks and decorators before the plugin. */
  readonly before?: (app: FastifyInstance) => void | Promise<void>
  /** Registers the plugin, and declares `routes`, in a child scope of the app. */
  readonly inChildScope?: boolean
}

/** The proxy in front of every test app is this machine, so that `from` of a request can be any client. */
export const TRUSTED_PROXY = ['127.0.0.1/32', '::1/128']

/** Starts an app with the plugin; the end of the test closes it. The route `/` and below answers `ok` to GET. */
export async function startApp(t: TestContext, options: AppOptions): Promise<TestApp> {
  const {
    database: given,
    clock = fakeClock(),
    plugin = {},
    fastify = {},
    port: wanted = 0,
    before,
    routes = okRoutes,
    inChildScope = false,
  } = options
  const database = typeof given === 'string' ? await openDatabase(t, given) : given
  const { stream, log } = captureLog()
  const app = Fastify({
    trustProxy: TRUSTED_PROXY,
    logger: { level: 'warn', stream },
    forceCloseConnections: true,
    ...fastify,
  })
  const http = createHttpClient()
  atEnd(t, async () => {
    http.close()
    await app.close()
  })
  await before?.(app)
  const { middleware, ...rest } = plugin
  const setUp = async (scope: FastifyInstance) => {
    await scope.register(rateLimitPlugin, {
      clock,
      // A busy machine is not an outage: tests of the time-out set their own.
      storeTimeoutMs: 20_000,
      ...(database === null ? {} : { database: database.client }),
      ...rest,
      middleware: { ...(database === null ? { backend: 'memory' } : {}), ...middleware },
    })
    await routes(scope)
  }
  if (inChildScope) await app.register(setUp)
  else await setUp(app)
  const listen = (at: number) => app.listen({ port: at, host: '127.0.0.1' })
  await listen(wanted).catch(() => listen(0))
  const port = portOf(app)
  const request = (path: string, options: RequestOptions = {}) => http.request(port, path, options)
  return {
    app,
    origin: `http://127.0.0.1:${port}`,
    port,
    clock,
    log,
    request,
    async statuses(times, path, options) {
      const statuses: number[] = []
      for (let count = 0; count < times; count++) statuses.push((await request(path, options)).status)
      return statuses
    },
  }
}

/** Opens a database that the end of the test removes. */
export async function openDatabase(
  t: TestContext,
  provider: Provider,
  clock?: FakeClock,
  log?: Provider,
): Promise<TestDatabase> {
  const database = await openTestDatabase(provider, clock, log)
  atEnd(t, database.close)
  return database
}

/** A log destination that keeps its lines. */
export function captureLog(): { stream: Writable; log: LogLine[] } {
  const log: LogLine[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      for (const line of String(chunk).trim().split('\n')) log.push(JSON.parse(line))
      done()
    },
  })
  return { stream, log }
}

export function okRoutes(app: FastifyInstance): void {
  app.get('/', async () => 'ok')
  app.get('/*', async () => 'ok')
}

export function portOf({ server }: Pick<FastifyInstance, 'server'>): number {
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('The server has no port')
  return address.port
}
