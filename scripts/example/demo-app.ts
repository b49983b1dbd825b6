/** The demo: a shop with a week of invented traffic, incidents that go on, and an account of each role. */
import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { json } from 'node:stream/consumers'
import Fastify, { type FastifyInstance } from 'fastify'
import { apiPlugin } from '../../src/api.js'
import { dashboardPlugin, hashPassword, type StaffAccounts, staffAccounts } from '../../src/dashboard.js'
import { databaseFor } from '../../src/database/database.js'
import { rateLimitPlugin } from '../../src/index.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { STAFF_ROLES } from '../../src/staff/shell/roles.js'
import { createDemoDatabase, demoRoutes, demoUser, tellDemoStory } from './demo.js'
import { HOME_PAGE } from './home-page.js'
import { isInstalled } from './is-installed.js'
import { explainListenError, type ListenAddress } from './listen-address.js'

const DEFAULT_RATE = '100/m'
const MAY = { viewer: 'reads', operator: 'blocks and raises clients, switches rules', admin: 'writes rules, too' }

interface DemoOptions {
  readonly listen: ListenAddress
  print(line: string): void
  /** Adds the panel, and returns its path; undefined where there is none. */
  addPanel?(app: FastifyInstance, staff: StaffAccounts): Promise<string | undefined>
}

/** Starts the demo, and prints how to use it. Its database is temporary, and removed when the app closes. */
export async function startDemo({ listen, print, addPanel }: DemoOptions): Promise<FastifyInstance> {
  const receiver = await receiveAlerts(print)
  const database = await createDemoDatabase()
  const passwords = STAFF_ROLES.map((role) => ({ role, password: randomBytes(9).toString('base64url') }))
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
    const accounts = await Promise.all(
      passwords.map(
        async ({ role, password }) => [role, { role, passwordHash: await hashPassword(password) }] as const,
      ),
    )
    const staff = staffAccounts({
      accounts: Object.fromEntries(accounts),
      sessionSecret: randomBytes(32).toString('base64url'),
      cookiePath: '/ratelimit',
    })
    await app.register(dashboardPlugin, { prefix: '/ratelimit', staff })
    const panel = await addPanel?.(app, staff)
    if (isInstalled('@fastify/swagger')) await app.register(apiPlugin, { prefix: '/ratelimit/api' })
    await app.register(demoRoutes)
    app.get('/', async (_request, reply) => reply.type('text/html; charset=utf-8').send(HOME_PAGE))
    await tellDemoStory(app, DEFAULT_RATE)
    const token = await addToken(
      databaseFor(app.smartRateLimit.client),
      { name: 'demo', role: 'admin', expiresAtMs: null },
      Date.now(),
    )
    await app.listen(listen).catch((error: unknown) => {
      throw explainListenError(error, listen)
    })
    const origin = app.listeningOrigin
    print(`Dashboard  ${origin}/ratelimit/dashboard/`)
    for (const { role, password } of passwords) print(`  ${role.padEnd(9)}${password}   ${MAY[role]}`)
    if (panel !== undefined) print(`Panel      ${origin}${panel}`)
    if (isInstalled('@fastify/swagger'))
      print(`API        curl -H 'authorization: Bearer ${token}' ${origin}/ratelimit/api/reports/incidents`)
    else print('API        npm install @fastify/swagger, and start again')
    print(
      metrics === undefined ? 'Metrics    npm install prom-client, and start again' : `Metrics    ${origin}/metrics`,
    )
    print('Alerts     are printed here, one line for each incident')
    print(`Database   ${database.url}, removed at the end: Ctrl-C`)
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}

/** Serves metrics where prom-client is installed. */
async function addMetrics(app: FastifyInstance) {
  if (!isInstalled('prom-client')) return undefined
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
    if (scope !== undefined) print(`Alert      ${scope}: ${refused} requests refused, ${paths.join(', ')}`)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return { server, url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/` }
}
