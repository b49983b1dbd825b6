/** `npm start`: an app with limited routes, logged decisions, and pages for staff. */
import Fastify, { type FastifyInstance } from 'fastify'
import { adminPlugin } from '../admin/index.js'
import { dashboardPlugin, type StaffAccounts, staffAccounts } from '../src/dashboard.js'
import { errorMessage } from '../src/ground/errors.js'
import { rateLimitPlugin } from '../src/index.js'
import { Command } from './commands/support/commander.js'
import { withEnvironmentFile } from './commands/support/open-database.js'
import { apiRoutes } from './example/api-routes.js'
import { startDemo } from './example/demo-app.js'
import { HOME_PAGE } from './example/home-page.js'
import { isInstalled } from './example/is-installed.js'
import { explainListenError, listenAddress } from './example/listen-address.js'
import { openStaffFile, type StaffFile } from './example/staff-file.js'

const STAFF_FILE = './ratelimit-staff.json'

const PANEL = '/ratelimit/admin'

const DEFAULT_RATE = '100/m'

const { demo } = new Command('npm start --')
  .description('Starts an example app with limited routes, a staff dashboard and an admin panel.')
  .option('--demo', 'start the demo: a week of invented traffic, incidents that go on, an account of each role')
  .helpOption('-h, --help', 'show this help')
  .addHelpText(
    'after',
    `
Environment, also from .env in the working directory:
  PORT                    the port, 3000 by default; 0 is any free one
  HOST                    the address to listen on, 127.0.0.1 by default: this machine only
  RATELIMIT_DATABASE_URL  the database, the file ratelimit.db by default; a demo has one of its own

The accounts are in ${STAFF_FILE}: delete it, and the next start makes a new password.`,
  )
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
  .opts()

async function buildApp({ accounts, sessionSecret }: StaffFile): Promise<FastifyInstance> {
  // A proxy's addresses are given like this: trustProxy: ['10.0.0.0/8']. AdminJS takes seconds to load on a slow
  // machine.
  const app = Fastify({ logger: { level: 'warn' }, pluginTimeout: 60_000 })
  // The database is RATELIMIT_DATABASE_URL, or else the file ratelimit.db.
  await app.register(rateLimitPlugin, {
    logEvents: true,
    useDynamicRules: true,
    middleware: { defaultRate: DEFAULT_RATE, rateLimits: { '/auth/': '5/m' } },
  })
  // The sign-in is one for both: the path is above the dashboard and the panel.
  const staff = staffAccounts({ accounts, sessionSecret, cookiePath: '/ratelimit' })
  await app.register(dashboardPlugin, { prefix: '/ratelimit', staff })
  await addPanel(app, staff)
  await app.register(apiRoutes)
  app.get('/', async (_request, reply) => reply.type('text/html; charset=utf-8').send(HOME_PAGE))
  return app
}

/** Adds the panel where its packages are installed, and returns its path. */
async function addPanel(app: FastifyInstance, staff: StaffAccounts): Promise<string | undefined> {
  if (!isInstalled('adminjs')) return undefined
  await app.register(adminPlugin, { rootPath: PANEL, staff })
  return PANEL
}

/** Creates a rule for operators to edit. */
async function createExampleRule(app: FastifyInstance): Promise<void> {
  const { client } = app.smartRateLimit
  if ((await client.rateLimitRule.count()) > 0) return
  await client.rateLimitRule.create({
    data: { name: 'api-writes', description: 'An example', pathPattern: '^/api/', method: 'POST', rate: '20/m' },
  })
}

async function start(): Promise<void> {
  Object.assign(process.env, withEnvironmentFile(process.env))
  const listen = listenAddress(process.env)
  if (demo) {
    closeOnSignal(await startDemo({ listen, print: console.log, addPanel }))
    return
  }
  const { staff, newPassword } = await openStaffFile(STAFF_FILE)
  if (newPassword !== undefined) announcePassword(newPassword)
  const app = await buildApp(staff)
  try {
    await createExampleRule(app)
    await app.listen(listen)
  } catch (error) {
    await app.close()
    throw explainListenError(error, listen)
  }
  closeOnSignal(app)
  console.log(`Example app:     ${app.listeningOrigin}/`)
  if (newPassword === undefined) {
    console.log(`Staff account:   staff, with the password of the first start (delete ${STAFF_FILE} for a new one)`)
  }
  console.log(`Staff dashboard: ${app.listeningOrigin}/ratelimit/dashboard/`)
  if (isInstalled('adminjs')) console.log(`Admin panel:     ${app.listeningOrigin}${PANEL}`)
}

/** Prints a new password at once, before anything can fail, since it is not stored. */
function announcePassword(newPassword: string): void {
  console.log('Staff account:   staff')
  console.log(`Staff password:  ${newPassword}  (shown this once: ${STAFF_FILE} keeps only its hash)`)
}

/** Closes the app on a signal: open requests are answered, and the last events written, before the process ends. */
function closeOnSignal(app: FastifyInstance): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void app.close())
}

start().catch((error: unknown) => {
  console.error(errorMessage(error))
  process.exitCode = 1
})
