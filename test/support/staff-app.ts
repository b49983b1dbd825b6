import './compiled-templates.js'
import type { TestContext } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { type DashboardOptions, dashboardPlugin, staffAccounts } from '../../src/dashboard.js'
import type { RateLimitOptions } from '../../src/index.js'
import { okRoutes, openDatabase, startApp } from './build-app.js'
import { fakeClock } from './clock.js'
import type { Provider } from './databases.js'
import type { Answer, RequestOptions } from './http-client.js'

export const PASSWORD = 'correct horse battery staple'
export const DASHBOARD = '/ops/dashboard/'

/** The weakest hash of the password that is accepted: what `hashPassword` makes takes a fifth of a second to verify. */
export const ACCOUNTS = {
  alice: '$scrypt$ln=12,r=1,p=1$c2FsdCBvZiB0aGUgdGVzdA$eGa4wQC0AHu9L03el1jrDZpyAt3gz4BGFCKi9ziOucs',
}
export const SECRET = 'a secret for tests, at least 32 characters long'

/** An app with 2/m, events, and the staff pages below `/ops`, by default with a sign-in for `alice`. */
export async function startWithStaff(
  t: TestContext,
  provider: Provider,
  staff: DashboardOptions = { staff: staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET }) },
  plugin: RateLimitOptions = {},
  routes: (app: FastifyInstance) => void = () => undefined,
) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const started = await startApp(t, {
    database,
    clock,
    plugin: { logEvents: true, middleware: { defaultRate: '2/m' }, ...plugin },
    routes: async (app) => {
      okRoutes(app)
      routes(app)
      await app.register(dashboardPlugin, { prefix: '/ops', ...staff })
    },
  })

  function signIn(
    password: string,
    { account = 'alice', to, headers, ...options }: RequestOptions & { account?: string; to?: string } = {},
  ): Promise<Answer> {
    return started.request(`${DASHBOARD}sign-in`, {
      method: 'POST',
      body: new URLSearchParams({ account, password, ...(to !== undefined && { to }) }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      ...options,
    })
  }
  return { ...started, database: database.database, signIn }
}

/** Returns the cookies that a browser sends back of a `Set-Cookie` header. */
export function cookieOf({ 'set-cookie': cookies = [] }: Answer['headers']): string {
  return cookies.map((cookie) => cookie.split(';')[0]).join('; ')
}
