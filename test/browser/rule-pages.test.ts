/** The pages of rules as an operator uses them: clicks from the dashboard, on wide and narrow screens. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { findFaults, inChromium, openPage, widthOf } from '../support/browser.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const SIZES = [
  { width: 390, height: 844 },
  { width: 1280, height: 800 },
]
const LONG = `long-${'x'.repeat(90)}`

inChromium(() => {
  forEachDatabase((provider) => {
    for (const viewport of SIZES) {
      test(`at ${viewport.width} px a rule is saved by 3 clicks, its rate changed by 3, and ten rules disabled by 2`, async (t) => {
        const { page, open, click, counted, client, complaints } = await start(t, provider, viewport)

        await open('')
        await click(page.getByRole('region', { name: 'By path' }).getByRole('link', { name: '/login' }))
        await click(page.getByRole('link', { name: 'New rule for /login' }))
        assert.equal(await page.getByLabel('Path pattern').inputValue(), '^/login')
        assert.match(await page.getByLabel('Rate', { exact: true }).inputValue(), /^\d+\/m$/)
        await check(page, 'new')
        await click(page.getByRole('button', { name: 'Save' }))
        await page.getByText('The rule login was created.').waitFor()
        assert.equal(counted(), 3)

        await open('')
        await click(page.getByRole('link', { name: 'Rules', exact: true }))
        await check(page, 'list')
        await click(page.getByRole('link', { name: 'login', exact: true }))
        await page.getByLabel('Rate', { exact: true }).fill('7 per minute')
        await page.getByRole('button', { name: 'Save' }).click()
        await page.getByText('Write it as 7/m.').waitFor()
        await check(page, 'wrong')
        await page.getByLabel('Rate', { exact: true }).fill('7 / m')
        await click(page.getByRole('button', { name: 'Save' }))
        await page.getByText('The rule login was changed.').waitFor()
        assert.equal(counted(), 3)
        assert.equal((await client.rateLimitRule.findUniqueOrThrow({ where: { name: 'login' } })).rate, '7/m')

        await open('')
        await click(page.getByRole('link', { name: 'Rules', exact: true }))
        await page.getByLabel('Search', { exact: true }).fill('sale-')
        await page.keyboard.press('Enter')
        await click(page.getByRole('button', { name: 'Disable all 10 found' }))
        await page.getByText(/^10 rules were disabled: /).waitFor()
        await check(page, 'disabled')
        assert.equal(counted(), 2)
        assert.equal(await client.rateLimitRule.count({ where: { isActive: false } }), 10)
        assert.deepEqual(
          complaints.filter((text) => !/status of 400/.test(text)),
          [],
        )
      })
    }
  })

  test('a rule is previewed and its rate suggested in the form, and the list is changed by keyboard alone', async (t) => {
    const { page, open, client } = await start(t, 'sqlite', { width: 768, height: 900 })
    await open('rule.html')
    await page.getByLabel('Name', { exact: true }).fill('login')
    await page.getByLabel('Path pattern').fill('^/login')
    await page.getByRole('button', { name: 'Suggest rates' }).click()
    await page.getByText(/In the last 7 days 1 client sent 12 requests/).waitFor()
    await check(page, 'suggested')
    await page.getByRole('button', { name: 'Use 12/m' }).first().click()
    await page.getByLabel('Rate', { exact: true }).fill('5/m')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page
      .getByText(/12 of \d+ requests matched/)
      .first()
      .waitFor()
    await check(page, 'preview')
    assert.equal(await client.rateLimitRule.count({ where: { name: 'login' } }), 0)

    await open('rules.html')
    const priority = page.getByLabel('Priority of sale-3')
    await priority.fill('9')
    await page.keyboard.press('Enter')
    await page.getByText('Priority changed: sale-3 from 0 to 9.').waitFor()
    await page.getByLabel('Priority of sale-3').fill('nine')
    await page.keyboard.press('Enter')
    await page.getByText('It must be an integer').waitFor()
    await check(page, 'priority')
    await page.getByRole('button', { name: 'Disable sale-4' }).focus()
    await page.keyboard.press('Space')
    await page.getByText('The rule sale-4 was disabled.').waitFor()
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      await check(page, `list-${colorScheme}`)
    }
  })
})

/** Asserts that a page has no fault, and does not scroll sideways. */
async function check(page: Page, name: string): Promise<void> {
  const { SHOTS } = process.env
  if (SHOTS !== undefined) {
    await page.screenshot({ path: `${SHOTS}/${name}-${page.viewportSize()?.width}.png`, fullPage: true })
  }
  assert.deepEqual(await findFaults(page), [], name)
  const { width = 0 } = page.viewportSize() ?? {}
  assert.ok((await widthOf(page)) <= width, `${name} is ${await widthOf(page)} px wide`)
}

async function start(t: TestContext, provider: Provider, viewport: { width: number; height: number }) {
  const { app, origin, database, clock } = await startWithStaff(
    t,
    provider,
    { isStaff: () => ({ actor: 'alice', role: 'admin' }) },
    { useDynamicRules: true },
  )
  const { client } = app.smartRateLimit
  await client.rateLimitRule.createMany({
    data: [
      ...Array.from({ length: 10 }, (_, number) => ({ name: `sale-${number}`, pathPattern: '^/sale', rate: '100/m' })),
      {
        name: LONG,
        pathPattern: `^/${'y'.repeat(250)}`,
        rate: '1/s, 100/h, 1000/d, 10000/month',
        condition: `request.headers['${'z'.repeat(200)}'] == 'a'`,
        block: false,
      },
    ],
  })
  const events = Array.from({ length: 12 }, (_, number) => ({
    timestampMs: clock.now() - 60_000 + number,
    client: 'ip:203.0.113.7',
    clientIp: '203.0.113.7',
    key: 'default:203.0.113.7',
    path: '/login',
    method: 'POST',
  }))
  await logRows(database, events)
  const { page, complaints } = await openPage(t, { viewport })
  let clicks = 0
  return {
    page,
    complaints,
    client,
    async open(address: string) {
      clicks = 0
      await page.goto(`${origin}${DASHBOARD}${address}`)
    },
    async click(target: ReturnType<Page['getByRole']>) {
      clicks++
      await target.click()
    },
    counted: () => clicks,
  }
}
