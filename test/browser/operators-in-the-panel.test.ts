/** Operators work with the panel in a browser, and the API obeys them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { inChromium, openPage, PLAIN_HOST, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { PANEL, startWithPanel } from '../support/panel-app.js'
import { PASSWORD } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OFFENDER = 'ip:203.0.113.7'

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
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
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
    await page.getByRole('checkbox', { name: `Select ${name}`, exact: true }).check()
  }
}

/** Opens groups of the form that most rules leave as they are. */
async function unfold(page: Page, ...groups: string[]): Promise<void> {
  for (const group of groups) await page.locator('summary').getByText(group, { exact: true }).click()
}

/** Confirms what a dialog asks. */
async function confirm(page: Page, word: string): Promise<void> {
  await page.getByRole('dialog').getByRole('button', { name: word }).click()
}

/** Waits for what a save says. */
async function notified(page: Page, text: string | RegExp): Promise<void> {
  await page.locator('[data-css="notice"]').getByText(text).first().waitFor()
}

inChromium(() => {
  test('a rule with a bad rate and a bad condition is refused beside the fields; corrected and previewed, it is saved, and the API obeys it', async (t) => {
    const { page, url, app, statuses, complaints, outside } = await signInToPanel(t)
    await logEvents(app.smartRateLimit.client, {
      key: OFFENDER,
      path: '/api/orders',
      allowed: 5,
      atMs: NOW_MS - 60_000,
    })
    await page.goto(url('/resources/rules'))
    await page
      .getByRole('link', { name: 'New rule' })
      .or(page.getByRole('button', { name: 'New rule' }))
      .first()
      .click()
    await page.getByLabel('Name', { exact: true }).fill('orders')
    await page.getByLabel('Path pattern').fill('^/api/')
    await page.getByLabel('Rate', { exact: true }).fill('2/fortnight')
    await unfold(page, 'Condition')
    await page.getByText("request.headers['x-plan'] == 'gold'").waitFor()
    await page.getByLabel('Condition', { exact: true }).fill("request.method = 'GET'")
    await page.getByLabel('Counted by').selectOption('Header')
    await page.getByLabel('Header name').fill('X-Api-Key')
    await page.getByLabel('GET', { exact: true }).check()
    await page.getByRole('button', { name: 'Save' }).click()
    await page
      .getByRole('alert')
      .getByText(/2\/fortnight/)
      .waitFor()
    await page
      .getByRole('alert')
      .getByText(/At column 16 .*write == to compare/)
      .waitFor()
    assert.equal(await app.smartRateLimit.client.rateLimitRule.count(), 0)

    await page.getByLabel('Counted by').selectOption('IP address')
    await page.getByLabel('Rate', { exact: true }).fill('2/m')
    await page.getByLabel('Condition', { exact: true }).fill("user.plan == 'free'")
    await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
    await page.getByText('depend on a condition that reads what the log does not have').waitFor()
    await page.getByLabel('Condition', { exact: true }).fill("request.method == 'GET'")
    await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
    await page.getByText('of these would have been refused, from 1 client').waitFor()
    assert.match(
      await page.locator('.rate-limit-preview').innerText(),
      /\d+ of \d+ requests matched, [\d.]+% of these would have been refused/,
    )
    assert.deepEqual(await page.locator('.rate-limit-legend li').allInnerTexts(), ['Within the limit', 'Refused'])
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')

    const [rule] = await app.smartRateLimit.client.rateLimitRule.findMany()
    assert.deepEqual(
      [rule?.name, rule?.rate, rule?.method, rule?.condition, rule?.key, rule?.isActive],
      ['orders', '2/m', 'GET', "request.method == 'GET'", 'ip', true],
    )
    assert.deepEqual(await statuses(3, '/api/orders'), [200, 200, 429])
    assert.deepEqual(outside, [])
    assert.deepEqual(
      complaints.filter((text) => !/status of 403/.test(text)),
      [],
    )
  })

  test('a sale day is written in the form, wrong fields being named beside them, and edited again as it was saved', async (t) => {
    const { page, url, app } = await openPanel(t)
    await page.goto(url('/resources/rules/actions/new'))
    await page.getByLabel('Name', { exact: true }).fill('sale')
    await page.getByLabel('Path pattern').fill('^/shop/')
    await page.getByLabel('Rate', { exact: true }).fill('5/m')
    await unfold(page, 'Counting', 'Ban', 'Refusal', 'Time')
    await page.getByLabel('Counts').fill('teapots')
    await page.getByLabel('Cost').fill('10')
    await page.getByLabel('Status').fill('200')
    await page.getByLabel('Message').fill('Busy: try again in {seconds} s')
    await page.getByLabel('Ban after').fill('3')
    await page.getByLabel('Starts').fill('2026-11-27T00:00')
    await page.getByLabel('Ends').fill('2026-11-26T00:00')
    await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
    await page.getByText('Nothing to preview yet:').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    for (const text of [
      'Must be an integer between 400 and 599.',
      '"teapots" is no status of a response',
      'Is 10, more than the rate',
      'Is empty: give a length such as 15m, 2h or 7d',
      'Is not after startsAt',
    ]) {
      await page.getByRole('alert').getByText(text).waitFor()
    }

    await page.getByLabel('Rate', { exact: true }).fill('20/m')
    await page.getByLabel('Counts').fill('4XX, 503')
    await page.getByLabel('Status').fill('503')
    await page.getByLabel('Ban for').fill('2h')
    await page.getByLabel('Ends').fill('2026-11-28T00:00')
    await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
    await page.getByText(/in force from 2026-11-27T00:00:00.000Z until 2026-11-28/).waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    const saved = await app.smartRateLimit.client.rateLimitRule.findFirstOrThrow()
    const { counts, cost, refusalStatus, refusalMessage, banAfter, banFor, startsAt, endsAt } = saved
    assert.deepEqual(
      [counts, cost, refusalStatus, refusalMessage, banAfter, banFor, startsAt, endsAt],
      ['4xx,503', 10, 503, 'Busy: try again in {seconds} s', 3, '2h', new Date('2026-11-27'), new Date('2026-11-28')],
    )

    await page.goto(url(`/resources/rules/records/${saved.id}/edit`))
    assert.equal(await page.getByLabel('Starts').inputValue(), '2026-11-27T00:00')
    assert.equal(await page.getByLabel('Cost').inputValue(), '10')
    await page.getByLabel('Starts').fill('')
    await page.getByLabel('Message').fill('')
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    const edited = await app.smartRateLimit.client.rateLimitRule.findFirstOrThrow()
    assert.deepEqual([edited.startsAt, edited.endsAt, edited.refusalMessage], [null, endsAt, ''])
  })

  test('a rule is switched off in the list and its priority raised there, and the API obeys both at once', async (t) => {
    const { page, url, database, statuses } = await openPanel(t)
    await createRules(database.client, 'low', 'high')
    assert.deepEqual(await statuses(4, '/api/orders'), [200, 200, 200, 429])
    await page.goto(url('/resources/rules'))

    await page.getByRole('switch', { name: 'Active: high' }).click()
    await page.getByRole('switch', { name: 'Active: high', checked: false }).waitFor()
    assert.deepEqual(await statuses(3, '/api/orders'), [200, 200, 429])
    await page.getByRole('switch', { name: 'Active: high' }).click()
    await page.getByRole('switch', { name: 'Active: high', checked: true }).waitFor()

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

  test('a rule is counted by several kinds, which are added, named and taken away, or by all together', async (t) => {
    const { page, url, app, complaints } = await openPanel(t)
    const { rateLimitRule } = app.smartRateLimit.client
    const key = async () => (await rateLimitRule.findFirst())?.key
    await page.goto(url('/resources/rules/actions/new'))
    await page.getByLabel('Name', { exact: true }).fill('orders')
    await page.getByLabel('Path pattern').fill('^/api/')
    await page.getByLabel('Rate', { exact: true }).fill('2/m')
    await page.getByLabel('And by (2)').selectOption('Header')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('"header:" is no key').waitFor()
    await page.getByLabel('Header name (2)').fill('X-Tenant')
    await page.getByLabel('And by (3)').selectOption('Cookie')
    await page.getByLabel('Cookie name (3)').fill('session')
    await page.getByLabel('Counted by').selectOption('User')
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    assert.equal(await key(), 'user+header:X-Tenant+cookie:session')

    const { id } = (await rateLimitRule.findFirst()) ?? {}
    for (const [field, chosen, written] of [
      ['And by (2)', 'Nothing else', 'user+cookie:session'],
      ['Counted by', 'Nothing: all share one counter', 'all'],
      ['Counted by', 'Route', 'route'],
    ] as const) {
      await page.goto(url(`/resources/rules/records/${id}/edit`))
      await page.getByLabel(field).selectOption(chosen)
      await page.getByRole('button', { name: 'Save' }).click()
      await notified(page, 'Saved.')
      assert.equal(await key(), written)
    }
    assert.deepEqual(
      complaints.filter((text) => !/status of 403/.test(text)),
      [],
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
    await notified(page, 'Disabled 1 rule(s).')
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
      const { rateLimitRule: rules, rateLimitCounter: counters } = database.client
      await createRules(database.client, 'one', 'two', 'three', 'four')
      await rules.updateMany({ data: { isActive: false } })
      await page.goto(url('/resources/rules'))
      await page.getByRole('switch', { name: 'Active: four' }).click()
      await page.getByRole('switch', { name: 'Active: four', checked: true }).waitFor()
      await select(page, 'one', 'two')
      await page.getByText('Enable selected rules').click()
      await notified(page, 'Enabled 2 rule(s).')
      assert.equal(await rules.count({ where: { isActive: true } }), 3)

      await page.goto(url('/resources/rules'))
      await select(page, 'one', 'two')
      await page.getByRole('button', { name: 'Delete selected rules' }).click()
      await confirm(page, 'Delete selected rules')
      await notified(page, 'Deleted 2 row(s).')

      const rule = await rules.findUnique({ where: { name: 'three' } })
      await page.goto(url(`/resources/rules/records/${rule?.id}/show`))
      await page.getByTestId('action-delete').click()
      await confirm(page, 'Delete')
      await notified(page, 'Deleted.')
      assert.deepEqual(
        (await rules.findMany()).map(({ name }) => name),
        ['four'],
      )

      const [key, windowStart, windowEnd] = ['ip:203.0.113.7', new Date(NOW_MS), new Date(NOW_MS + 60_000)]
      await counters.create({ data: { key, count: 3, windowStart, windowEnd } })
      await page.goto(url('/resources/counters?filters.key=ip:203'))
      await page.getByTestId('actions-dropdown').first().click()
      await page.getByTestId('action-reset').click()
      await confirm(page, 'Reset')
      await notified(page, 'The counter was reset.')
      assert.equal(await counters.count({ where: { key } }), 0)

      await page.goto(url('/pages/exchange'))
      const download = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Export rules.json' }).click()
      assert.equal((await download).suggestedFilename(), 'rules.json')
    })
  }

  test('from the page of its key an offender is blocked in two clicks, and the API obeys', async (t) => {
    const { page, app, origin, database, statuses } = await openPanel(t)
    await logEvents(app.smartRateLimit.client, { key: OFFENDER, blocked: 5, atMs: NOW_MS - 60_000 })
    assert.deepEqual(await statuses(1, '/api/orders', { from: '203.0.113.7' }), [200])
    await page.goto(`${origin}/ops/dashboard/offender.html?key=${OFFENDER}`)
    await page.getByRole('link', { name: 'Block', exact: true }).click()
    await page.getByLabel('Client', { exact: true }).waitFor()
    assert.equal(await page.getByLabel('Client', { exact: true }).inputValue(), OFFENDER)
    assert.equal(await page.getByLabel('Effect').inputValue(), 'deny')
    assert.equal(await page.getByRole('textbox', { name: 'Expires' }).inputValue(), '2026-01-16T12:00')
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    assert.deepEqual(await statuses(1, '/api/orders', { from: '203.0.113.7' }), [403])
    const [override] = await database.client.rateLimitOverride.findMany()
    assert.equal(override?.expiresAt?.toISOString(), '2026-01-16T12:00:00.000Z')
  })

  test('from an event one click leads to the client on the dashboard, and one back', async (t) => {
    const { page, url, app } = await openPanel(t)
    await logEvents(app.smartRateLimit.client, { key: OFFENDER, blocked: 1, atMs: NOW_MS - 60_000 })
    await page.goto(url('/resources/events'))
    await page.getByRole('link', { name: OFFENDER }).click()
    await page.getByRole('heading', { name: OFFENDER }).waitFor()
    await page.getByRole('link', { name: 'Events' }).click()
    await page.getByRole('link', { name: OFFENDER }).waitFor()
    assert.equal(new URL(page.url()).searchParams.get('filters.key'), OFFENDER)
  })

  test('events are shown and filtered in the time of the reader, and an address has the time in UTC', async (t) => {
    const { page, url, database } = await openPanel(t, { timezoneId: 'America/New_York' })
    for (const minutes of [50, 40, 30]) {
      const atMs = NOW_MS - minutes * 60_000
      await logEvents(database.client, { key: `ip:203.0.113.${minutes}`, allowed: 1, atMs })
    }
    await page.goto(url('/resources/events?filters.timestamp~~to=2026-01-15T11:20:00.500Z'))
    await page.getByRole('link', { name: 'ip:203.0.113.50' }).waitFor()
    await page.locator('[data-css="events-filter-button"]').click()
    assert.equal(await page.getByLabel('Time to').inputValue(), '2026-01-15T06:20:00.5')
    await page.getByLabel('Time from').fill('2026-01-15T06:20')
    // Typed by hand, every figure is a change.
    await page.getByLabel('Time to').fill('')
    await page.getByLabel('Time to').pressSequentially('01152026\t0625AM')
    await page.getByRole('button', { name: 'Apply' }).click()
    await page.getByRole('link', { name: 'ip:203.0.113.50' }).waitFor({ state: 'detached' })
    assert.deepEqual(await page.locator('tbody time').allInnerTexts(), ['2026-01-15 06:20:00'])
    assert.equal(await page.locator('tbody time').getAttribute('title'), '2026-01-15 11:20:00 UTC')
    assert.equal(new URL(page.url()).searchParams.get('filters.timestamp~~to'), '2026-01-15T11:25:00.000Z')
  })

  test('a change is found in the history of its rule, and reverted', async (t) => {
    const { page, url, database } = await openPanel(t)
    await createRules(database.client, 'one', 'other')
    const rule = await database.client.rateLimitRule.findUnique({ where: { name: 'one' } })
    await page.goto(url(`/resources/rules/records/${rule?.id}/edit`))
    await page.getByLabel('Rate', { exact: true }).fill('99/h')
    await page.getByRole('button', { name: 'Save' }).click()
    await notified(page, 'Saved.')
    await page.goto(url(`/resources/rules/records/${rule?.id}/show`))
    await page.getByTestId('action-history').click()
    await page.getByText('rate: 2/m → 99/h').waitFor()
    assert.equal(await page.getByText('other', { exact: true }).count(), 0)
    await page.getByTestId('actions-dropdown').first().click()
    await page.getByTestId('action-revert').first().click()
    await confirm(page, 'Revert')
    await notified(page, 'Reverted.')
    assert.equal((await database.client.rateLimitRule.findUnique({ where: { name: 'one' } }))?.rate, '2/m')
  })

  test('the panel offers no way to change or delete an event', async (t) => {
    const { page, url, app } = await openPanel(t)
    await logEvents(app.smartRateLimit.client, { key: OFFENDER, blocked: 2, atMs: NOW_MS - 60_000 })
    const [event] = await app.smartRateLimit.client.rateLimitEvent.findMany()
    await page.goto(url('/resources/events'))
    await page.getByRole('link', { name: OFFENDER }).first().waitFor()
    await page.getByTestId('actions-dropdown').first().click()
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

  test('an import shows what it would change, and changes it when confirmed', async (t) => {
    const { page, url, database } = await openPanel(t)
    await createRules(database.client, 'one', 'two')
    await page.goto(url('/pages/exchange'))
    const rules = [{ name: 'one', pathPattern: '^/api/', rate: '7/m' }]
    await page.getByLabel('Rules as JSON').fill(JSON.stringify({ version: 1, rules }))
    await page.getByRole('button', { name: 'Show the difference' }).click()
    await page.getByText('rule one: rate: 2/m → 7/m').waitFor()
    await page.getByText('deleted rule two').waitFor()
    assert.equal(await database.client.rateLimitRule.count(), 2)
    await page.getByRole('button', { name: 'Import', exact: true }).click()
    await page.getByText('Imported:').waitFor()
    const cookies = await page.context().cookies()
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Show the difference' }).click()
    await page.getByText('Nothing was saved: you are signed out.').waitFor()
    await page.context().addCookies(cookies)
    assert.deepEqual(
      (await database.client.rateLimitRule.findMany()).map(({ rate }) => rate),
      ['7/m'],
    )
  })

  test('the panel fits a phone, and its pages keep to their policy', async (t) => {
    const { page, url, database, complaints } = await openPanel(t)
    await createRules(database.client, 'a-rule-of-a-name-that-is-as-long-as-names-of-rules-get-in-real-life', 'two')
    await logEvents(database.client, {
      key: `header:${'W'.repeat(200)}`,
      path: `/${'x'.repeat(400)}`,
      blocked: 1,
      atMs: NOW_MS - 60_000,
    })
    await page.setViewportSize({ width: 360, height: 740 })
    for (const [path, text] of [
      ['', 'Overview'],
      ['/resources/rules', 'two'],
      ['/resources/rules/records/1/edit', 'Preview on the last 24 hours'],
      ['/resources/events', 'Over the limit'],
      ['/resources/changes', 'priority: 0'],
      ['/pages/exchange', 'Export rules.json'],
    ] as const) {
      await page.goto(url(path))
      await page.getByText(text).first().waitFor()
      assert.ok((await widthOf(page)) <= 360, path)
    }
    assert.deepEqual(
      complaints.filter((text) => !/status of 403/.test(text)),
      [],
    )
  })

  test('however long a name and a pattern are, the switch and the priority of a rule are in view', async (t) => {
    const { page, url, database } = await openPanel(t)
    const names = ['n'.repeat(100), 'a-very-long-name-'.repeat(6).slice(0, 100), 'two']
    await createRules(database.client, ...names)
    await database.client.rateLimitRule.updateMany({
      where: { name: { not: 'two' } },
      data: { pathPattern: `^/${'very-long-path/'.repeat(16)}`, method: 'GET,POST,PUT,PATCH,DELETE' },
    })
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 740 })
      await page.goto(url('/resources/rules'))
      await page.getByRole('switch').first().waitFor()
      const controls = await page.locator('[role="switch"], .rate-limit-priority').all()
      assert.equal(controls.length, 2 * names.length)
      for (const control of controls) {
        const box = await control.boundingBox()
        assert.ok(box !== null && box.x >= 0 && box.x + box.width <= width, `${width}: ${JSON.stringify(box)}`)
      }
    }
  })

  test('after signing out, nothing of the panel is to be seen', async (t) => {
    const { page, url } = await signInToPanel(t)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await page.goto(url('/resources/rules'))
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })
})
