/** The tasks of an incident, each from the dashboard: how many clicks each takes. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { inChromium, openPage } from '../support/browser.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { startWithPanel } from '../support/panel-app.js'
import { DASHBOARD, PASSWORD } from '../support/staff-app.js'

const SCRAPER = '203.0.113.50'
const CUSTOMER = { headers: { 'x-user': '1007' }, from: '198.51.100.7' }
const YESTERDAY_MS = Date.UTC(2026, 0, 14, 14, 5)
const DEVICES = ['mouse', 'keyboard'] as const
type Device = (typeof DEVICES)[number]
/** More than any page has of what takes the focus. */
const MOST_TABS = 300
const OTHERS = ['192.0.2.1', '192.0.2.2', '192.0.2.3']

/** A scraper on `/search` and `/login`, under a policy each; a fifth of what is refused is a big customer. */
async function start(t: TestContext, provider: Provider) {
  const started = await startWithPanel(t, provider, {
    plugin: {
      user: ({ headers }) => (typeof headers['x-user'] === 'string' ? { id: headers['x-user'] } : null),
      middleware: { defaultRate: '6/h' },
    },
    after: (app) => {
      app.get('/search', async () => 'ok')
      app.get('/items', async () => 'ok')
      app.post('/login', async () => 'ok')
    },
  })
  const rules = started.database.client.rateLimitRule
  await rules.create({ data: { name: 'search', pathPattern: '^/search', rate: '5/h' } })
  await rules.create({ data: { name: 'items', pathPattern: '^/items', rate: '4/h', key: 'user' } })
  await started.app.smartRateLimit.rules.reload()
  const { statuses } = started
  await statuses(11, '/search', { from: SCRAPER })
  await statuses(12, '/login', { from: SCRAPER, method: 'POST' })
  await statuses(7, '/items', CUSTOMER)
  const yesterday = { key: 'rule:items:user:1007', client: 'user:1007', ruleName: 'items', path: '/items' }
  await logEvents(started.database.client, { ...yesterday, allowed: 4, blocked: 1, atMs: YESTERDAY_MS })
  for (const from of OTHERS) await statuses(2, '/login', { from, method: 'POST' })
  return started
}

/** Goes to what is there by the Tab key, as far as it takes, and presses it. */
async function pressByKeyboard(page: Page, its: Locator): Promise<void> {
  await its.waitFor()
  for (let presses = 0; presses < MOST_TABS; presses++) {
    if ((await its.and(page.locator(':focus')).count()) > 0) return page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
  }
  throw new Error(`The focus does not come to ${its}`)
}

/** Opens the dashboard for alice. `click` counts, by whatever device; each `task` begins at the dashboard again. */
async function openDashboard(t: TestContext, origin: string, device: Device) {
  const { page, complaints } = await openPage(t, { viewport: { width: 1280, height: 900 }, timezoneId: 'UTC' })
  page.setDefaultTimeout(20_000)
  await page.goto(origin + DASHBOARD)
  await page.getByLabel('Name').fill('alice')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  let clicks = 0
  return {
    page,
    complaints,
    async click(its: Locator) {
      clicks++
      if (device === 'mouse') await its.click()
      else await pressByKeyboard(page, its)
    },
    /** Does a task from the dashboard, and answers how many clicks it took. */
    async task(act: () => Promise<void>): Promise<number> {
      await page.goto(origin + DASHBOARD)
      clicks = 0
      await act()
      return clicks
    },
  }
}

inChromium(() => {
  forEachDatabase((provider) => {
    for (const device of DEVICES)
      test(`the tasks of an incident take no more than they may by ${device}`, async (t) => {
        const { origin, statuses, database } = await start(t, provider)
        const { page, complaints, click, task } = await openDashboard(t, origin, device)
        const clients = page.getByRole('region', { name: 'Clients' })
        const row = (client: string) => clients.getByRole('row').filter({ hasText: client })

        await t.test('find the offender: 2 at most', async () => {
          const clicks = await task(async () => {
            // Over both policies it ranks before the customer.
            await click(clients.getByRole('rowheader').first().getByRole('link').first())
            await page.getByRole('heading', { name: `ip:${SCRAPER}`, level: 1 }).waitFor()
          })
          assert.deepEqual(
            await page.getByRole('region', { name: 'Limits that applied' }).getByRole('rowheader').count(),
            2,
          )
          assert.ok(clicks <= 2, `${clicks}`)
        })

        await t.test('explain why its request was refused: 1 at most', async () => {
          const clicks = await task(async () => {
            await click(row(SCRAPER).getByRole('link', { name: 'Why?' }))
            await page.getByText('Decided by default. The client has used 12, 0 left: the request is over').waitFor()
            await page.getByText('this request was refused: 12 of 6 by default.').waitFor()
          })
          await page.getByRole('heading', { name: 'POST /login' }).waitFor()
          assert.ok(clicks <= 1, `${clicks}`)
        })

        await t.test('explain why a customer was refused yesterday at 14:00: 3 at most', async () => {
          const clicks = await task(async () => {
            await click(page.getByRole('navigation').getByRole('link', { name: 'Events', exact: true }))
            await page.getByLabel('Client or network').fill('1007')
            await page.getByLabel('From (UTC)').fill('2026-01-14 14:00')
            await page.getByLabel('Until (UTC)').fill('15:00')
            await page.getByLabel('Outcome').selectOption('refused')
            await click(page.getByRole('button', { name: 'Filter', exact: true }))
            await click(page.getByRole('row').getByRole('link', { name: 'Why?' }))
            await page.getByText('this request was refused: 5 of 4 by items.').waitFor()
            await page
              .getByRole('heading', { name: 'Rule items, as it was then' })
              .or(page.getByText('The history has no rule items'))
              .waitFor()
          })
          assert.ok(clicks <= 3, `${clicks}`)
        })

        await t.test('block it for 2 hours: 1 at most; and see that it worked: 0', async () => {
          const blocking = await task(async () => {
            await click(row(SCRAPER).getByRole('button', { name: `Block ip:${SCRAPER} for 2 h` }))
            await page.getByRole('status').filter({ hasText: 'is denied until' }).waitFor()
          })
          assert.ok(blocking <= 1, `${blocking}`)
          assert.equal(
            await page.getByRole('status').textContent(),
            `ip:${SCRAPER} is denied until 2026-01-15 14:00:00 UTC.`,
          )
          assert.equal(await page.getByRole('alert').count(), 0)
          assert.equal(await page.getByRole('button', { name: 'Exempt from all limits' }).isVisible(), false)
          assert.deepEqual(await statuses(3, '/search', { from: SCRAPER }), [403, 403, 403])

          const seeing = await task(async () => {
            await row(SCRAPER).getByText('Denied until 2026-01-15 14:00:00 UTC').waitFor()
          })
          assert.equal(await row(SCRAPER).getByRole('cell').last().textContent(), '3')
          assert.equal(await row(SCRAPER).getByRole('button').count(), 0)
          assert.equal(seeing, 0)
        })

        await t.test('give the customer more than it asks for: 2 at most', async () => {
          assert.deepEqual(await statuses(1, '/items', CUSTOMER), [429])
          const clicks = await task(async () => {
            await click(row('user:1007').getByRole('link', { name: 'Raise the limit of user:1007' }))
            await click(page.getByRole('button', { name: 'Save' }))
            await page.getByText('The override user:1007 was created.').waitFor()
          })
          assert.ok(clicks <= 2, `${clicks}`)
          assert.deepEqual(await statuses(1, '/items', CUSTOMER), [200])
        })

        await t.test('write the rule for /login: 3 at most, and its form suggests the rate', async () => {
          const clicks = await task(async () => {
            await click(page.getByRole('region', { name: 'By path' }).getByRole('link', { name: '/login' }))
            await click(page.getByRole('link', { name: 'New rule for /login' }))
            await page.getByLabel('Path pattern').waitFor()
            assert.equal(await page.getByLabel('Path pattern').inputValue(), '^/login')
            assert.match(await page.getByLabel('Rate', { exact: true }).inputValue(), /^\d+\/m$/)
            await click(page.getByRole('button', { name: 'Save' }))
            await page.getByText('The rule login was created.').waitFor()
          })
          assert.ok(clicks <= 3, `${clicks}`)
          const rule = await database.client.rateLimitRule.findUnique({ where: { name: 'login' } })
          assert.equal(rule?.pathPattern, '^/login')
        })

        await t.test('revert the last change: 2 at most', async () => {
          const clicks = await task(async () => {
            await click(page.getByRole('navigation').getByRole('link', { name: 'Changes', exact: true }))
            await click(page.getByRole('button', { name: /^Revert: deletes the rule: created rule login/ }))
            await page.getByRole('status').filter({ hasText: 'The rule login was deleted.' }).waitFor()
          })
          assert.ok(clicks <= 2, `${clicks}`)
          assert.equal(await database.client.rateLimitRule.findUnique({ where: { name: 'login' } }), null)
        })

        // The page of the sign-in is a 403.
        assert.deepEqual(
          complaints.filter((text) => !text.startsWith('Failed to load resource')),
          [],
        )
      })
  })
})
