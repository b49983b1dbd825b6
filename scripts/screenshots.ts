/** `npm run screenshots`: the pictures of the documentation, of an invented shop. Needs Chromium (`CHROMIUM`, or Debian's). */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Browser, chromium } from 'playwright-core'
import { adminPlugin } from '../admin/index.js'
import { dashboardPlugin, rateLimitPlugin } from '../src/index.js'
import { createInventedRules } from './screenshots/invented-rules.js'
import { logInventedTraffic } from './screenshots/invented-traffic.js'
import { PICTURES } from './screenshots/pictures.js'

const FOLDER = 'docs/images'
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** The time of the pages. */
const NOW_MS = Date.UTC(2026, 10, 21, 14, 32)

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
  await createInventedRules(app.smartRateLimit.client, NOW_MS)
  await logInventedTraffic(app.smartRateLimit.client, NOW_MS)
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
