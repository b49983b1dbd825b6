import type { TestContext } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { type ApiOptions, apiPlugin } from '../../src/api.js'
import type { RateLimitOptions } from '../../src/index.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { STAFF_ROLES, type StaffRole } from '../../src/staff/shell/roles.js'
import { type AppOptions, openDatabase, startApp } from './build-app.js'
import { fakeClock } from './clock.js'
import type { Provider } from './databases.js'
import type { RequestOptions } from './http-client.js'

export const API = '/ratelimit/api'

interface ApiAppOptions {
  readonly api?: ApiOptions
  readonly plugin?: RateLimitOptions
  readonly routes?: (app: FastifyInstance) => void
  readonly before?: AppOptions['before']
}

/** A request with JSON. */
export interface JsonRequest extends Omit<RequestOptions, 'body'> {
  readonly json?: unknown
  readonly body?: string
  /** The role whose token it carries; none unless given. */
  readonly as?: StaffRole | undefined
}

/** An app with rules and events on, the API, and a token for each role, which is named after it. */
export async function startWithApi(t: TestContext, provider: Provider, options: ApiAppOptions = {}) {
  const { api = {}, plugin = {}, routes = () => undefined, before } = options
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const started = await startApp(t, {
    database,
    clock,
    plugin: { logEvents: true, useDynamicRules: true, ...plugin },
    ...(before !== undefined && { before }),
    routes: async (app) => {
      app.get('/', async () => 'ok')
      app.get('/api/orders', async () => 'ok')
      routes(app)
      await app.register(apiPlugin, { prefix: API, ...api })
    },
  })
  const texts = await Promise.all(
    STAFF_ROLES.map((role) => addToken(database.database, { name: role, role, expiresAtMs: null }, clock.now())),
  )
  const tokens = new Map(STAFF_ROLES.map((role, index) => [role, texts[index] ?? '']))

  /** Sends a request to the API, and reads the JSON that it answers. */
  async function call(method: string, path: string, { json, as, headers, body, ...rest }: JsonRequest = {}) {
    const sent = json === undefined ? body : JSON.stringify(json)
    const {
      status,
      headers: received,
      text,
    } = await started.request(`${API}${path}`, {
      method,
      ...rest,
      headers: {
        ...(sent !== undefined && { 'content-type': 'application/json' }),
        ...(as !== undefined && { authorization: `Bearer ${tokens.get(as)}` }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
    })
    const isJson = /\bjson\b/.test(received['content-type'] ?? '') && text !== ''
    return { status, headers: received, text, json: isJson ? JSON.parse(text) : undefined }
  }

  return { ...started, database, tokens, call }
}
