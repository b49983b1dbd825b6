/** Operators work with the panel in a browser, and the API obeys them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { inChromium, openPage, PLAIN_HOST } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { PANEL, startWithPanel } from '../support/panel-app.js'
import { PASSWORD } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OFFENDER = 'ip:203.0.113.7'

/** The number of rows of the navigation. */
const LINK_ROWS = "new Set([...document.querySelectorAll('.shell-links a')].map((its) => its.offsetTop)).size"

/** A browser that is signed in, before its first page. */
async function openPanel(t: TestContext, options: BrowserContextOptions = {}, host = '127.0.0.1') {
  const started = await startWithPanel(t, 'sqlite')
  const origin = `http://${host}:${started.port}`
  const url = (path = '') => `${origin}${PANEL}${path}`
  const { page, complaints } = await openPage(t, {
    viewport: { width: 1400, height: 1000 },
    timezoneId: 'UTC',
    ...options,
  })
  page.setDefaultTimeout(20_000)
  const outside: string[] = []
  page.on('request', (request) => {
    const { protocol, origin: asked } = new URL(request.url())
    if (protocol !== 'data:' && asked !== origin) outside.push(request.url())
  })
  const { cookie } = await started.asStaff()
  for (const pair of cookie.split('; ')) {
    const [name = '', value = ''] = pair.split(/=(.*)/)
    await page.context().addCookies([{ name, value, url: `${origin}/ops/`, httpOnly: true, sameSite: 'Strict' }])
  }
  return { ...started, origin, url, page, complaints, outside }
}

/** The same, signed in by the form, at the panel's first page. */
async function signInToPanel(t: TestContext, host?: string) {
  const opened = await openPanel(t, {}, host)
  const { page, url } = opened
  await page.context().clearCookies()
  await page.goto(url())
  await page.getByLabel('Name').fill('alice')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL('**/resources/rules')
  return opened
}

async function createRules(client: Awaited<ReturnType<typeof openPanel>>['database']['client'], ...names: string[]) {
  for (const [priority, name] of names.entries()) {
    await client.rateLimitRule.create({ data: { name, pathPattern: '^/api/', rate: `${priority + 2}/m`, priority } })
  }
}

/** Ticks rules in the list. */
async function select(page: Page, ...names: string[]): Promise<void> {
  for (const name of names) {
    const row = page.locator('tbody tr').filter({ has: page.getByText(name, { exact: true }) })
    await row.locator('input[type="checkbox"] + a').click()
  }
}

/** Confirms what a dialog asks. */
async function confirm(page: Page): Promise<void> {
  await page
    .getByRole('button', { name: 'Confirm' })
    .or(page.getByText('Confirm', { exact: true }))
    .last()
    .click()
}

/** Waits for what a save says. */
async function notified(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor()
}

inChromium(() => {
  test('a rule is switched off in the list and its priority raised there, and the API obeys both at once', async (t) => {
    const { page, url, database, statuses } = await openPanel(t)
    await createRules(database.client, 'low', 'high')
    assert.deepEqual(await statuses(4, '/api/orders'), [200, 200, 200, 429])
    await page.goto(url('/resources/rules'))

    await page.getByRole('switch', { name: 'Active: high' }).click()
    await page.getByRole('switch', { name: 'Active: high', checked: false, disabled: false }).waitFor()
    assert.deepEqual(await statuses(3, '/api/orders'), [200, 200, 429])
    await page.getByRole('switch', { name: 'Active: high' }).click()
    await page.getByRole('switch', { name: 'Active: high', checked: true, disabled: false }).waitFor()

    await page.getByLabel('Priority: low').fill('9')
    await page.getByLabel('Priority: low').press('Enter')
    await notified(page, 'Priority of low: 9.')
    assert.deepEqual(await statuses(1, '/api/orders'), [429])
    const changes = await database.client.rateLimitChange.findMany({ where: { action: 'update' } })
    assert.deepEqual(
      changes.map(({ actor }) => actor),
      ['alice', 'alice', 'alice'],
    )
  })

  test('a priority that is none stays as it was, and is reported', async (t) => {
    const { page, url, database } = await openPanel(t)
    await createRules(database.client, 'low')
    await page.goto(url('/resources/rules'))
    await page.getByLabel('Priority: low').fill('99999999999')
    await page.getByLabel('Priority: low').press('Enter')
    await notified(page, /must be an integer/i)
    assert.equal(await page.getByLabel('Priority: low').inputValue(), '0')

    await database.client.rateLimitRule.updateMany({ data: { priority: 7 } })
    for (const typed of ['', '-']) {
      await page.goto(url('/resources/rules'))
      await page.getByLabel('Priority: low').fill('')
      await page.getByLabel('Priority: low').pressSequentially(typed)
      await page.getByLabel('Priority: low').press('Enter')
      await notified(page, /must be an integer/i)
      assert.equal(await page.getByLabel('Priority: low').inputValue(), '7')
    }
    assert.equal((await database.client.rateLimitRule.findMany())[0]?.priority, 7)
  })

  test('the selected rules are disabled, and only those that changed are counted', async (t) => {
    const { page, url, database } = await openPanel(t)
    await createRules(database.client, 'one', 'two', 'three')
    await database.client.rateLimitRule.update({ where: { name: 'two' }, data: { isActive: false } })
    await page.goto(url('/resources/rules'))
    await select(page, 'one', 'two')
    await page.getByText('Disable selected rules').click()
    await notified(page, 'Disabled 1 rule.')
    const rules = await database.client.rateLimitRule.findMany({ orderBy: { name: 'asc' } })
    assert.deepEqual(
      rules.map(({ name, isActive }) => [name, isActive]),
      [
        ['one', false],
        ['three', true],
        ['two', false],
      ],
    )
  })

  for (const host of ['127.0.0.1', PLAIN_HOST]) {
    test(`every button that changes something does so, ${host === PLAIN_HOST ? 'without' : 'with'} Sec-Fetch-Site`, async (t) => {
      const { page, url, database } = await signInToPanel(t, host)
      const { rateLimitRule: rules } = database.client
      await createRules(database.client, 'one', 'two', 'three', 'four')
      await rules.updateMany({ data: { isActive: false } })
      await page.goto(url('/resources/rules'))
      await page.getByRole('switch', { name: 'Active: four' }).click()
      await page.getByRole('switch', { name: 'Active: four', checked: true }).waitFor()
      await select(page, 'one', 'two')
      await page.getByText('Enable selected rules').click()
      await notified(page, 'Enabled 2 rules.')
      assert.equal(await rules.count({ where: { isActive: true } }), 3)

      await page.goto(url('/resources/rules'))
      await select(page, 'one', 'two')
      await page.getByText('Delete selected rules').click()
      await confirm(page)
      await notified(page, 'Deleted 2 rows.')

      const rule = await rules.findUnique({ where: { name: 'three' } })
      await page.goto(url(`/resources/rules/records/${rule?.id}/show`))
      await page.getByTestId('action-delete').click()
      await confirm(page)
      await notified(page, 'Deleted.')
      assert.deepEqual(
        (await rules.findMany()).map(({ name }) => name),
        ['four'],
      )
    })
  }

  test('the panel offers no way to change or delete an event', async (t) => {
    const { page, url, app } = await openPanel(t)
    await logEvents(app.smartRateLimit.client, { key: OFFENDER, blocked: 2, atMs: NOW_MS - 60_000 })
    const [event] = await app.smartRateLimit.client.rateLimitEvent.findMany()
    await page.goto(url('/resources/events'))
    await page.getByText(OFFENDER).first().waitFor()
    const words = () => page.locator('body').innerText()
    assert.doesNotMatch(await words(), /delete|edit|create|new event/i)
    assert.equal(await page.locator('tbody input[type="checkbox"]').count(), 0)
    await page.goto(url(`/resources/events/records/${event?.id}/show`))
    await page.getByText(OFFENDER).first().waitFor()
    assert.doesNotMatch(await words(), /delete|edit|create/i)
    for (const action of ['edit', 'delete']) {
      await page.goto(url(`/resources/events/records/${event?.id}/${action}`))
      await page
        .getByText(/does not have|cannot be found|not authorized|Page not found/i)
        .first()
        .waitFor()
    }
    assert.equal(await app.smartRateLimit.client.rateLimitEvent.count({ where: { key: OFFENDER } }), 2)
  })

  test('a wrong field is said beside it, and what was typed is kept, and saved once it is right', async (t) => {
    const { page, url, database, outside, complaints } = await openPanel(t)
    await page.goto(url('/resources/rules/actions/new'))
    const type = (name: string, text: string) => page.locator(`[name="${name}"], #${name}`).first().fill(text)
    await type('name', 'typed')
    await type('pathPattern', '^/typed/')
    await type('rate', '2/fortnight')
    await page.getByRole('button', { name: 'Save' }).click()
    await page
      .getByText(/2\/fortnight/)
      .first()
      .waitFor()
    const cookies = await page.context().cookies()
    await page.context().clearCookies()
    await type('rate', '2/m')
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'you are signed out')
    assert.equal(await database.client.rateLimitRule.count(), 0)
    await page.context().addCookies(cookies)
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    const { name, rate, isActive } = await database.client.rateLimitRule.findFirstOrThrow()
    assert.deepEqual([name, rate, isActive], ['typed', '2/m', true])
    assert.deepEqual(outside, [])
    assert.deepEqual(
      complaints.filter((text) => !/status of 403/.test(text)),
      [],
    )
  })

  test('every page of the panel leads to those of the dashboard, and they lead back', async (t) => {
    const { page, url, database } = await openPanel(t)
    await createRules(database.client, 'one')
    await page.setViewportSize({ width: 1280, height: 900 })
    for (const path of ['/resources/rules', '/resources/rules/records/1/edit', '/resources/events']) {
      await page.goto(url(path))
      const links = page.getByRole('navigation', { name: 'Rate limits' })
      assert.equal(await page.evaluate(LINK_ROWS), 1)
      for (const name of ['Rules', 'Overrides and bans', 'Changes', 'Events', 'Counters']) {
        await links.getByRole('link', { name, exact: true }).waitFor()
      }
      await links.locator('[aria-current="page"]').getByText('Panel').waitFor()
      await links.getByRole('link', { name: 'Changes' }).click()
      await page.getByRole('heading', { name: 'Changes', level: 1 }).waitFor()
      await page.getByRole('link', { name: 'Panel', exact: true }).click()
      await page.waitForURL('**/resources/rules')
    }
  })

  test('a link into the panel survives the sign-in', async (t) => {
    const { page, url } = await openPanel(t)
    await page.context().clearCookies()
    const link = url('/resources/events?filters.key=ip%3A203.0.113.99')
    await page.goto(link)
    await page.getByLabel('Name').fill('alice')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    assert.equal(page.url(), link)
  })

  test('after signing out, nothing of the panel is to be seen', async (t) => {
    const { page, url } = await signInToPanel(t)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await page.goto(url('/resources/rules'))
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })
})
