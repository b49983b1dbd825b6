/** The demo: a shop with a week of invented traffic, incidents that go on, and an account of each role. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { json } from 'node:stream/consumers'
import Fastify, { type FastifyInstance } from 'fastify'
import { apiPlugin } from '../../src/api.js'
import { dashboardPlugin, hashPassword, type StaffAccounts, staffAccounts } from '../../src/dashboard.js'
import { databaseFor } from '../../src/database/database.js'
import { missingDriver } from '../../src/database/sqlite-driver.js'
import { rateLimitPlugin } from '../../src/index.js'
import { variables } from '../../src/plugin/settings/environment.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { STAFF_ROLES, type StaffRole } from '../../src/staff/shell/roles.js'
import { demoRoutes, demoUser, tellDemoStory } from './demo.js'
import { createDemoDatabase } from './demo-database.js'
import { API_PACKAGE, commandWith, demoLines, FIRST_LINE, METRICS_PACKAGE } from './demo-text.js'
import { isInstalled } from './is-installed.js'
import { explainListenError, type ListenAddress } from './listen-address.js'

const DEFAULT_RATE = '100/m'
const DASHBOARD = '/ratelimit/dashboard/'

interface DemoOptions {
  readonly listen: ListenAddress
  print(line: string): void
  /** Adds the panel, and returns its path; undefined where there is none. */
  addPanel?(app: FastifyInstance, staff: StaffAccounts): Promise<string | undefined>
}

/** Starts the demo, and prints how to use it. Its database is temporary, and removed when the app closes. */
export async function startDemo({ listen, print, addPanel }: DemoOptions): Promise<FastifyInstance> {
  const driver = missingDriver()
  if (driver !== undefined) {
    const optional = [API_PACKAGE, METRICS_PACKAGE].filter((name) => !isInstalled(name))
    throw new Error(
      `Node.js ${process.versions.node} needs an older driver of SQLite: use Node.js 22.14 or later, or run ${commandWith([driver, ...optional])}`,
    )
  }
  await tryPort(listen)
  print(FIRST_LINE)
  forgetSettings()
  const receiver = await receiveAlerts(print)
  const database = await createDemoDatabase()
  const app = Fastify({ logger: { level: 'warn' }, pluginTimeout: 60_000 })
  app.addHook('onClose', async () => {
    receiver.server.close()
    await database.remove()
  })
  try {
    const metrics = await addMetrics(app)
    await app.register(rateLimitPlugin, {
      database: database.url,
      user: demoUser,
      logEvents: true,
      useDynamicRules: true,
      middleware: { defaultRate: DEFAULT_RATE },
      alertWebhook: receiver.url,
      schedule: { alerts: '* * * * *' },
      ...(metrics && { metrics }),
    })
    const passwords = new Map(STAFF_ROLES.toReversed().map((role) => [role, randomBytes(6).toString('hex')]))
    const panel = await addStaffPages(app, passwords, addPanel)
    const token = await addApi(app)
    await app.register(demoRoutes)
    app.get('/', async (_request, reply) => reply.redirect(DASHBOARD))
    await tellDemoStory(app, DEFAULT_RATE)
    await app.listen(listen)
    const { listeningOrigin: origin } = app
    const hasMetrics = metrics !== undefined
    const lines = demoLines({ origin, database: database.url, passwords, panel, token, hasMetrics })
    for (const line of lines) print(line)
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}

/** Fails at once where the port cannot be used: writing a week of traffic takes some seconds. */
async function tryPort(listen: ListenAddress): Promise<void> {
  const server = createServer().listen(listen.port, listen.host)
  await once(server, 'listening').catch((error: unknown) => {
    throw explainListenError(error, listen)
  })
  server.close()
  await once(server, 'close')
}

/** Forgets settings of real servers: a demo must not send mail, or count in their Redis. */
function forgetSettings(): void {
  for (const variable of variables()) delete process.env[variable]
}

/** Adds the dashboard and the panel, and returns the path of the latter. */
async function addStaffPages(
  app: FastifyInstance,
  passwords: ReadonlyMap<StaffRole, string>,
  addPanel: DemoOptions['addPanel'],
): Promise<string | undefined> {
  const accounts = await Promise.all(
    [...passwords].map(
      async ([role, password]) => [role, { role, passwordHash: await hashPassword(password) }] as const,
    ),
  )
  const staff = staffAccounts({
    accounts: Object.fromEntries(accounts),
    sessionSecret: randomBytes(32).toString('base64url'),
    cookiePath: '/ratelimit',
  })
  await app.register(dashboardPlugin, { prefix: '/ratelimit', staff })
  return addPanel?.(app, staff)
}

/** Adds the API where its package is installed, and returns a token of it. */
async function addApi(app: FastifyInstance): Promise<string | undefined> {
  if (!isInstalled(API_PACKAGE)) return undefined
  await app.register(apiPlugin, { prefix: '/ratelimit/api' })
  const token = { name: 'demo', role: 'admin', expiresAtMs: null } as const
  return addToken(databaseFor(app.smartRateLimit.client), token, Date.now())
}

/** Serves metrics where their package is installed. */
async function addMetrics(app: FastifyInstance) {
  if (!isInstalled(METRICS_PACKAGE)) return undefined
  const { Registry } = await import('prom-client')
  const register = new Registry()
  app.get('/metrics', { config: { smartRateLimit: false } }, async (_request, reply) =>
    reply.type(register.contentType).send(await register.metrics()),
  )
  return { prometheus: register }
}

/** Receives alerts as a webhook, and prints a line for each. */
async function receiveAlerts(print: (line: string) => void): Promise<{ server: Server; url: string }> {
  const server = createServer(async (request, response) => {
    const body = await json(request).catch(() => undefined)
    response.end()
    const { scope, refused, paths = [] } = Object(Object(body).incident)
    if (scope !== undefined) print(`Alert: ${scope}, ${refused} requests refused, ${paths.join(', ')}`)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  return { server, url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/` }
}
