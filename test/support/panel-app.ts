import type { TestContext } from 'node:test'
import { Router } from 'adminjs'
import { type AdminOptions, adminPlugin } from '../../admin/index.js'
import { dashboardPlugin, staffAccounts } from '../../src/dashboard.js'
import type { RateLimitOptions } from '../../src/index.js'
import { type AppOptions, openDatabase, startApp } from './build-app.js'
import { fakeClock } from './clock.js'
import type { Provider } from './databases.js'
import type { Answer, RequestOptions } from './http-client.js'
import { ACCOUNTS, cookieOf, PASSWORD, SECRET } from './staff-app.js'

export const PANEL = '/ops/admin'

/** The headers that the script of a page of the panel sends along. */
export const FROM_PANEL = { 'sec-fetch-site': 'same-origin', 'x-rate-limit-panel': '1' } as const

export interface PanelAppOptions {
  readonly admin?: AdminOptions
  readonly plugin?: RateLimitOptions
  readonly before?: AppOptions['before']
  /** The routes that are added after the panel. */
  readonly after?: AppOptions['routes']
}

export interface PanelRoute {
  readonly method: string
  readonly url: string
}

/** The port of the panel before: a browser has compiled the scripts of that address, which takes a second. */
let lastPort = 0

/** An app with rules and events on, the dashboard below `/ops`, and the panel, by default with one sign-in for both. */
export async function startWithPanel(t: TestContext, provider: Provider, options: PanelAppOptions = {}) {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET, cookiePath: '/ops' })
  const { admin = { staff }, plugin = {}, before, after } = options
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  // AdminJS's own routes, behind the one of the panel.
  const routes: PanelRoute[] = [
    ...Router.routes.map(({ method, path }) => ({ method, url: PANEL + path.replace(/\{(\w+)\}/g, ':$1') })),
    ...Router.assets.map(({ path }) => ({ method: 'GET', url: PANEL + path })),
  ]
  const started = await startApp(t, {
    database,
    clock,
    port: lastPort,
    plugin: { logEvents: true, useDynamicRules: true, ruleCacheTimeout: 1, ...plugin },
    // AdminJS takes seconds to load where other tests run beside.
    fastify: { pluginTimeout: 60_000 },
    before: async (app) => {
      await before?.(app)
    },
    routes: async (app) => {
      // A wildcard is not added: what the panel does not answer is to be seen.
      app.get('/api/orders', async () => 'ok')
      await app.register(dashboardPlugin, { prefix: '/ops', staff: admin.staff ?? staff })
      await app.register(adminPlugin, { rootPath: PANEL, ...admin })
      await after?.(app)
    },
  })
  const { request, origin } = started
  lastPort = started.port

  function signIn(password = PASSWORD, headers: RequestOptions['headers'] = {}): Promise<Answer> {
    return request(`${PANEL}/sign-in`, {
      method: 'POST',
      body: new URLSearchParams({ account: 'alice', password }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })
  }

  /** Returns the headers that a page of the panel sends along. */
  async function asStaff() {
    const { headers } = await signIn()
    return { cookie: cookieOf(headers), ...FROM_PANEL }
  }

  return { ...started, database, routes, signIn, asStaff, url: (path = '') => `${origin}${PANEL}${path}` }
}

/** A form as the panel sends it. */
export async function formOf(fields: Readonly<Record<string, string>>) {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  const sent = new Response(form)
  return { body: await sent.text(), contentType: sent.headers.get('content-type') ?? '' }
}
