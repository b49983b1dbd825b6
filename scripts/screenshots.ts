/** `npm run screenshots`: the pictures of the README, of an invented shop. Needs Chromium (`CHROMIUM`, or Debian's). */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Browser, type BrowserContextOptions, chromium } from 'playwright-core'
import { dashboardPlugin, rateLimitPlugin } from '../src/index.js'
import { logInventedTraffic } from './screenshots/invented-traffic.js'

const FOLDER = '.github/images'
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** What the pages take for now. */
const NOW_MS = Date.UTC(2026, 10, 21, 14, 32)

const PICTURES: Readonly<Record<string, BrowserContextOptions>> = {
  'dashboard.png': { viewport: { width: 1280, height: 1264 } },
  'dashboard-dark.png': { viewport: { width: 1280, height: 1264 }, colorScheme: 'dark' },
  'dashboard-phone.png': { viewport: { width: 360, height: 1360 }, deviceScaleFactor: 2 },
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
  await logInventedTraffic(app.smartRateLimit.client, NOW_MS)
  return app
}

async function takePictures(browser: Browser, url: string): Promise<void> {
  for (const [name, options] of Object.entries(PICTURES)) {
    const context = await browser.newContext(options)
    const page = await context.newPage()
    await page.goto(url)
    await page.screenshot({ path: join(FOLDER, name) })
    console.log(join(FOLDER, name))
    await context.close()
  }
}

const folder = await mkdtemp(join(tmpdir(), 'screenshots-'))
const app = await buildApp(folder)
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
try {
  await takePictures(browser, `${await app.listen({ port: 0, host: '127.0.0.1' })}/ratelimit/dashboard/`)
} finally {
  await browser.close()
  await app.close()
  await rm(folder, { recursive: true })
}
