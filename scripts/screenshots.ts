/** `npm run screenshots`: the pictures of the documentation, of the pages and the demo's shop. Needs Chromium (`CHROMIUM`, or Debian's). */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { asActor } from '../src/index.js'
import { fromSource } from '../src/rules/history/actor.js'
import { drawBlockAndProof } from './docs/block-and-proof.js'
import { DASHBOARD, NOW_MS, startPicturedShop } from './docs/pictured-shop.js'

const FOLDER = 'docs/images'
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** The picture that moves. */
const MOVING = 'block.svg'

/** A picture of one page. */
interface Picture {
  readonly path: string
  readonly options: BrowserContextOptions
  /** Prepares the page. */
  readonly prepare?: (page: Page) => Promise<void>
}

const DESK = { viewport: { width: 1280, height: 1282 } }

function wide(height: number): BrowserContextOptions {
  return { viewport: { width: 1100, height } }
}

/** The pictures by the names of their files. */
const PICTURES: Readonly<Record<string, Picture>> = {
  'dashboard.png': { path: DASHBOARD, options: DESK },
  'dashboard-dark.png': { path: DASHBOARD, options: { ...DESK, colorScheme: 'dark' } },
  'dashboard-phone.png': {
    path: DASHBOARD,
    options: { viewport: { width: 360, height: 1105 }, deviceScaleFactor: 1.5 },
  },
  'rules.png': { path: `${DASHBOARD}rules.html`, options: wide(690) },
  'rule-form.png': {
    path: `${DASHBOARD}rule.html?named=login`,
    options: wide(1240),
    prepare: async (page) => {
      await page.getByLabel('Rate', { exact: true }).fill('5 per minute')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByText('Write it as').first().waitFor()
    },
  },
  'events.png': { path: `${DASHBOARD}events.html?client=user:1007&outcome=refused`, options: wide(760) },
  'changes.png': { path: `${DASHBOARD}changes.html`, options: wide(760) },
  'why.png': {
    path: `${DASHBOARD}events.html?client=user:1007&outcome=refused`,
    options: wide(900),
    prepare: async (page) => {
      await page.getByRole('link', { name: 'Why?' }).first().click()
      await page.getByRole('heading', { level: 1 }).waitFor()
    },
  },
  'search.png': { path: `${DASHBOARD}search.html?q=login`, options: wide(480) },
  'client.png': { path: `${DASHBOARD}client.html?client=user:1007`, options: wide(1050) },
  'preview.png': {
    path: `${DASHBOARD}rule.html?named=search`,
    options: wide(610),
    prepare: async (page) => {
      await page.getByLabel('Rate', { exact: true }).fill('30/m')
      await page.getByRole('button', { name: 'Preview' }).first().click()
      await page.waitForLoadState()
    },
  },
  // Last, since it changes what the others show.
  'blocked.png': {
    path: DASHBOARD,
    options: wide(285),
    prepare: async (page) => {
      await page.getByRole('button', { name: 'Block' }).first().click()
      await page.getByText(/Undo/).first().waitFor()
    },
  },
}

/** Adds changes by people, eighteen hours apart. */
async function tellChanges(app: FastifyInstance): Promise<void> {
  const { client } = app.smartRateLimit
  const { rateLimitRule: rules, rateLimitOverride: overrides } = client
  await asActor('bob', () =>
    fromSource('dashboard', async () => {
      await rules.update({ where: { name: 'search' }, data: { rate: '40/m' } })
      await rules.update({ where: { name: 'orders' }, data: { isActive: false } })
    }),
  )
  await asActor('alice', () =>
    fromSource('dashboard', async () => {
      await rules.update({ where: { name: 'search' }, data: { rate: '60/m', description: 'Costs the most' } })
      await rules.update({ where: { name: 'orders' }, data: { isActive: true } })
      await overrides.create({ data: { client: 'user:1003', effect: '200/m', note: 'A partner: asked for more' } })
    }),
  )
  await client.$executeRaw`
    UPDATE rate_limit_change
    SET changed_at = ${NOW_MS} - 64800000 * ((SELECT MAX(id) + 1 FROM rate_limit_change) - id)`
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

const names = process.argv.slice(2)
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
const shop = await startPicturedShop()
try {
  await tellChanges(shop.app)
  await takePictures(browser, shop.origin, names)
  if (names.length === 0 || names.includes(MOVING)) {
    await writeFile(join(FOLDER, MOVING), await drawBlockAndProof(browser))
    console.log(join(FOLDER, MOVING))
  }
} finally {
  await browser.close()
  await shop.close()
}
