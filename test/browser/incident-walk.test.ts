/** The incidents of the demo, from the dashboard to their ends: how many clicks each step takes. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Locator, ViewportSize } from 'playwright-core'
import { demoRoutes, demoUser, tellDemoPast } from '../../scripts/example/demo.js'
import { dashboardPlugin } from '../../src/dashboard.js'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import { inChromium, openClockedPage } from '../support/browser.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { long } from '../support/long.js'
import { DASHBOARD } from '../support/staff-app.js'

const VIEWPORTS = [
  { width: 1280, height: 900 },
  { width: 390, height: 844 },
]
const DEFAULT_RATE = '100/m'
const NETWORK = '203.0.113.0/24'
const SCRAPER = { from: '203.0.113.10' }
const GUESSER = { from: '192.0.2.200', method: 'POST' }
const CUSTOMER = { from: '198.51.100.7', headers: { authorization: 'Bearer demo-1007' } }
const SHOPPER = { from: '198.51.100.101', headers: { authorization: 'Bearer demo-2001' } }
/** The requests of the network, and of the client that guesses, that are denied at each size of the screen. */
const DENIED = 3
const GUESSES = 1

type Shop = Awaited<ReturnType<typeof startShop>>
type Walk = Awaited<ReturnType<typeof startWalk>>

/** The shop of the demo after its week, with its incidents. */
async function startShop(t: TestContext, provider: Provider) {
  const clock = fakeClock(Date.UTC(2026, 0, 15, 12, 40))
  const database = await openDatabase(t, provider, clock)
  const started = await startApp(t, {
    database,
    clock,
    plugin: {
      user: demoUser,
      logEvents: true,
      useDynamicRules: true,
      ruleCacheTimeout: 1,
      middleware: { defaultRate: DEFAULT_RATE },
    },
    routes: async (app) => {
      await app.register(demoRoutes)
      await app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => ({ actor: 'alice', role: 'admin' }) })
    },
  })
  await tellDemoPast(started.app, DEFAULT_RATE, clock.now())
  await started.app.smartRateLimit.rules.reload()
  const limitOf = async (path: string, client: typeof CUSTOMER) =>
    (await started.request(path, client)).headers['x-ratelimit-limit']
  return { ...started, limitOf }
}

async function startWalk(t: TestContext, shop: Shop, viewport: ViewportSize) {
  const { page, complaints } = await openClockedPage(t, { viewport, timezoneId: 'UTC' })
  page.setDefaultTimeout(20_000)
  await page.clock.install()
  const incidents = page.getByRole('region', { name: 'Incidents' }).getByRole('listitem')
  let clicks = 0

  async function click(control: Locator): Promise<void> {
    clicks++
    await control.click()
  }
  const saysDone = (words: string | RegExp) => page.getByRole('status').filter({ hasText: words }).waitFor()

  /** Does a step, which goes on where the last one ended, with no more clicks than it may take. */
  async function step(name: string, most: number, act: () => Promise<void>): Promise<void> {
    clicks = 0
    const startMs = performance.now()
    await act()
    t.diagnostic(`${name}: ${clicks} of ${most} clicks, ${((performance.now() - startMs) / 1_000).toFixed(1)} s`)
    assert.ok(clicks <= most, `${name} takes ${clicks} clicks`)
  }

  return {
    ...shop,
    page,
    complaints,
    incidents,
    click,
    saysDone,
    step,
    openDashboard: () => page.goto(shop.origin + DASHBOARD),
    /** Finds a button or link that begins with a word, of an incident. */
    control: (incident: string, word: RegExp) => {
      const row = incidents.filter({ hasText: incident })
      return row.getByRole('button', { name: word }).or(row.getByRole('link', { name: word }))
    },
    undo: () =>
      step('undo', 1, async () => {
        await click(page.getByRole('button', { name: /^Undo/ }))
        await saysDone(/has ended|again/)
      }),
    /** Lets a minute pass, after which a page that follows is up to date. */
    async passMinute() {
      shop.clock.advance(MINUTE_MS)
      await page.clock.fastForward(MINUTE_MS)
    },
  }
}

async function solveNetwork(walk: Walk, { height }: ViewportSize, deniedInAll: number): Promise<void> {
  const { page, incidents, openDashboard, click, control, saysDone, step, undo, passMinute, statuses } = walk
  await step('find the attacker', 0, async () => {
    await openDashboard()
    await incidents.first().getByText(NETWORK).first().waitFor()
    const box = await incidents.first().boundingBox()
    assert.ok(box !== null && box.y + box.height <= height, 'the first screen does not name the attacker')
  })
  assert.deepEqual(await statuses(1, '/search', SCRAPER), [200])
  await step('block it', 1, async () => {
    await click(control(NETWORK, /^Block/))
    await saysDone('203.0.113.0/24 is denied until')
  })
  await step('see the effect', 0, async () => {
    assert.deepEqual(new Set(await statuses(DENIED, '/search', SCRAPER)), new Set([403]))
    await passMinute()
    await page.getByRole('group', { name: new RegExp(`\\b${deniedInAll} denied`) }).waitFor()
  })
  await undo()
  assert.deepEqual(await statuses(1, '/search', SCRAPER), [200])
  // It needs somebody again.
  await openDashboard()
  await incidents.first().getByText(NETWORK).first().waitFor()
}

async function solveClient({ openDashboard, click, control, saysDone, step, undo, statuses }: Walk): Promise<void> {
  await step('block the client that guesses passwords', 1, async () => {
    await openDashboard()
    await click(control(GUESSER.from, /^Block/))
    await saysDone(`ip:${GUESSER.from} is denied until`)
  })
  assert.deepEqual(await statuses(GUESSES, '/login', GUESSER), [403])
  await undo()
  assert.deepEqual(await statuses(1, '/login', GUESSER), [401])
}

/** Raises a limit from the first screen, and undoes that. */
async function solveByRaise(
  { page, openDashboard, click, control, saysDone, step, undo, limitOf }: Walk,
  { what, of, saved, path, by, from, to }: Raise,
): Promise<void> {
  assert.equal(await limitOf(path, by), from)
  await step(what, 2, async () => {
    await openDashboard()
    await click(control(of, /^Raise/))
    await click(page.getByRole('button', { name: 'Save' }))
    await saysDone(saved)
  })
  assert.equal(await limitOf(path, by), to)
  await undo()
  assert.equal(await limitOf(path, by), from)
}

interface Raise {
  readonly what: string
  readonly of: string
  readonly saved: string
  readonly path: string
  readonly by: typeof CUSTOMER
  readonly from: string
  readonly to: string
}

const RAISES: readonly Raise[] = [
  {
    what: 'raise the customer from the limit that it met to above what it asks for',
    of: 'user:1007',
    saved: 'user:1007',
    path: '/search',
    by: CUSTOMER,
    from: '60',
    to: '240',
  },
  {
    what: 'raise the rule that became too low',
    of: 'Policy products',
    saved: 'products',
    path: '/products/1',
    by: SHOPPER,
    from: '5',
    to: '10',
  },
]

inChromium(() => {
  forEachDatabase((provider) => {
    test('the incidents of the demo take no more clicks than they may', long(), async (t) => {
      const shop = await startShop(t, provider)
      for (const [index, viewport] of VIEWPORTS.entries())
        await t.test(`at ${viewport.width} pixels`, async (t) => {
          const walk = await startWalk(t, shop, viewport)
          await solveNetwork(walk, viewport, (DENIED + GUESSES) * index + DENIED)
          await solveClient(walk)
          for (const raise of RAISES) await solveByRaise(walk, raise)
          assert.deepEqual(walk.complaints, [])
        })
    })
  })
})
