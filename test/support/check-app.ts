import type { TestContext } from 'node:test'
import type { FastifyServerOptions } from 'fastify'
import { type CheckPluginOptions, checkPlugin } from '../../src/api.js'
import type { RateLimitOptions } from '../../src/index.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { TOKEN_ROLES, type TokenRole } from '../../src/staff/shell/roles.js'
import { openDatabase, startApp } from './build-app.js'
import { fakeClock } from './clock.js'
import type { Provider } from './databases.js'

export const CHECK = '/check'

interface CheckAppOptions {
  readonly check?: CheckPluginOptions
  readonly plugin?: RateLimitOptions
  readonly fastify?: FastifyServerOptions
}

/** An app with rules and events on, checks, and a token for each role. */
export async function startWithChecks(t: TestContext, provider: Provider, options: CheckAppOptions = {}) {
  const { check = {}, plugin = {}, fastify = {} } = options
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const started = await startApp(t, {
    database,
    clock,
    fastify,
    plugin: { logEvents: true, useDynamicRules: true, ...plugin },
    routes: async (app) => {
      await app.register(checkPlugin, { prefix: CHECK, ...check })
    },
  })
  const texts = await Promise.all(
    TOKEN_ROLES.map((role) => addToken(database.database, { name: role, role, expiresAtMs: null }, clock.now())),
  )
  const tokens = new Map(TOKEN_ROLES.map((role, index) => [role, texts[index] ?? '']))
  const bearer = (role: TokenRole = 'checker') => ({ authorization: `Bearer ${tokens.get(role)}` })

  /** Posts JSON, and reads the JSON that is answered. */
  async function post(json: unknown, headers: Readonly<Record<string, string>> = bearer()) {
    const body = typeof json === 'string' ? json : JSON.stringify(json)
    const sent = { 'content-type': 'application/json', ...headers }
    const answer = await started.request(CHECK, { method: 'POST', headers: sent, body })
    return { ...answer, json: JSON.parse(answer.text) }
  }

  /** Asks as a proxy does. */
  function forward(headers: Readonly<Record<string, string | readonly string[]>>, path = '', method = 'GET') {
    return started.request(`${CHECK}/forward${path}`, { method, headers: { ...bearer(), ...copied(headers) } })
  }

  return { ...started, database, tokens, bearer, post, forward }
}

function copied(headers: Readonly<Record<string, string | readonly string[]>>): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
  )
}
