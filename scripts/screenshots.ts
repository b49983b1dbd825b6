/** `npm run screenshots`: the pictures of the documentation, of the demo's shop. Needs Chromium (`CHROMIUM`, or Debian's). */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { adminPlugin } from '../admin/index.js'
import { dashboardPlugin } from '../src/dashboard.js'
import { rateLimitPlugin } from '../src/index.js'
import { tellDemoPast } from './example/demo.js'

const FOLDER = 'docs/images'
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** The time of the pages. */
const NOW_MS = Date.UTC(2026, 10, 21, 14, 32)

/** A picture of one page. */
interface Picture {
  readonly path: string
  readonly options: BrowserContextOptions
  /** Prepares the page. */
  readonly prepare?: (page: Page) => Promise<void>
}

const DASHBOARD = '/ratelimit/dashboard/'
const PANEL = '/ratelimit/admin'
const DESK = { viewport: { width: 1280, height: 1264 } }

/** The pictures by the names of their files. */
const PICTURES: Readonly<Record<string, Picture>> = {
  'dashboard.png': { path: DASHBOARD, options: DESK },
  'dashboard-dark.png': { path: DASHBOARD, options: { ...DESK, colorScheme: 'dark' } },
  'dashboard-phone.png': {
    path: DASHBOARD,
    options: { viewport: { width: 360, height: 1360 }, deviceScaleFactor: 2 },
  },
  'panel-rules.png': {
    path: `${PANEL}/resources/rules`,
    options: { viewport: { width: 1280, height: 440 } },
    prepare: async (page) => page.getByRole('switch').first().waitFor(),
  },
  'panel-rule.png': {
    path: `${PANEL}/resources/rules/records/2/edit`,
    options: { viewport: { width: 1280, height: 1900 } },
    prepare: async (page) => {
      await page.getByLabel('Rate', { exact: true }).fill('30/m')
      await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
      await page.getByText('requests matched').first().waitFor()
    },
  },
  'panel-phone.png': {
    path: `${PANEL}/resources/rules`,
    options: { viewport: { width: 360, height: 760 }, deviceScaleFactor: 2 },
    prepare: async (page) => page.getByRole('switch').first().waitFor(),
  },
}

async function buildApp(folder: string): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(rateLimitPlugin, {
    database: `file:${join(folder, 'shop.db')}`,
    logEvents: true,
    useDynamicRules: true,
    clock: { now: () => NOW_MS },
  })
  await app.register(dashboardPlugin, { prefix: '/ratelimit', isStaff: () => true })
  await app.register(adminPlugin, { rootPath: '/ratelimit/admin', isStaff: () => true, actor: () => 'alice' })
  await tellDemoPast(app, '100/m', NOW_MS)
  return app
}

/** @param names the pictures to take; all by default */
async function takePictures(browser: Browser, origin: string, names: readonly string[]): Promise<void> {
  for (const [name, { path, options, prepare }] of Object.entries(PICTURES)) {
    if (names.length > 0 && !names.includes(name)) continue
    const context = await browser.newContext(options)
    const page = await context.newPage()
    await page.goto(`${origin}${path}`)
    await prepare?.(page)
    await page.screenshot({ path: join(FOLDER, name) })
    console.log(join(FOLDER, name))
    await context.close()
  }
}

const folder = await mkdtemp(join(tmpdir(), 'screenshots-'))
const app = await buildApp(folder)
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
try {
  await takePictures(browser, await app.listen({ port: 0, host: '127.0.0.1' }), process.argv.slice(2))
} finally {
  await browser.close()
  await app.close()
  await rm(folder, { recursive: true })
}
