/** The panel and the dashboard are one: with the same navigation, in any light, by keyboard, and without losing a form. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { findFaults, focused, inChromium, openClockedPage, openPage, widthOf } from '../support/browser.js'
import { PANEL, startWithPanel } from '../support/panel-app.js'
import { COUNTER_ID, fillPanel } from '../support/panel-contents.js'
import { PASSWORD } from '../support/staff-app.js'

const DASHBOARD = '/ops/dashboard/'

/** A page that is not signed in, in an app with something on every page of the panel. */
async function start(t: TestContext, open = openPage) {
  const started = await startWithPanel(t, 'sqlite')
  await fillPanel(started.database)
  const { page, complaints } = await open(t, { viewport: { width: 1280, height: 900 }, timezoneId: 'UTC' })
  page.setDefaultTimeout(20_000)
  return { ...started, page, complaints, at: (path: string) => `${started.origin}${path}` }
}

async function signIn(page: Page, password = PASSWORD): Promise<void> {
  await page.getByLabel('Name').fill('alice')
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

async function links(page: Page): Promise<string[]> {
  return page.getByRole('navigation', { name: 'Rate limits' }).getByRole('link').allInnerTexts()
}

/** The messages that are higher than the room they have, so that they cover what comes after them. */
function overflowing(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`
    [...document.querySelectorAll('[role="alert"], [role="status"]')]
      .filter(({ scrollHeight, clientHeight }) => clientHeight > 1 && scrollHeight > clientHeight + 2)
      .map(({ textContent }) => textContent)`)
}

async function preview(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
  await page.getByText('matched').first().waitFor()
}

interface Scene {
  readonly path: string
  /** A text of the page when it is there. */
  readonly text: string
  readonly act?: (page: Page) => Promise<unknown>
}

const SCENES: readonly Scene[] = [
  { path: '', text: 'Most refused clients' },
  { path: '/resources/rules', text: 'secret-rule-2' },
  {
    path: '/resources/rules',
    text: 'secret-rule-2',
    act: (page) => page.getByRole('button', { name: 'Filter' }).click(),
  },
  {
    path: '/resources/rules',
    text: 'secret-rule-2',
    act: async (page) => {
      await page.getByRole('checkbox', { name: 'Select all' }).check()
      await page.getByRole('button', { name: 'Delete selected rules' }).click()
    },
  },
  {
    path: '/resources/rules/actions/new',
    text: 'Path pattern',
    act: async (page) => {
      await page.getByLabel('Rate', { exact: true }).fill('ten in a minute')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByText('Not saved').waitFor()
      await page.evaluate("for (const group of document.querySelectorAll('details')) group.open = true")
    },
  },
  { path: '/resources/rules/records/1/edit', text: 'Preview on the last 24 hours' },
  { path: '/resources/rules/records/1/show', text: 'Created' },
  { path: '/resources/rules/records/99/show', text: 'There is no such page' },
  { path: '/resources/rules/records/2/edit', text: 'Preview on the last 24 hours', act: preview },
  { path: '/resources/overrides', text: 'deny' },
  { path: '/resources/overrides/actions/new', text: 'For ever' },
  { path: '/resources/overrides/records/1/edit', text: 'For ever' },
  { path: '/resources/overrides/records/1/show', text: 'deny' },
  { path: '/resources/changes', text: 'rate: 1/m → 2/m' },
  {
    path: '/resources/events',
    text: 'Over the limit',
    act: (page) => page.getByTestId('actions-dropdown').first().click(),
  },
  {
    path: '/resources/events',
    text: 'Over the limit',
    act: (page) => page.getByRole('button', { name: 'Filter' }).click(),
  },
  { path: '/resources/events?filters.allowed=denied', text: 'No row matches the filter' },
  { path: '/resources/events/records/1/show', text: 'Limit this client' },
  { path: '/resources/changes/records/1/show', text: 'secret-rule' },
  { path: '/resources/counters', text: '203.0.113.99' },
  { path: `/resources/counters/records/${COUNTER_ID}/show`, text: 'Window ends' },
  { path: '/resources/leaky-buckets', text: 'There are no counters of this kind' },
  { path: '/pages/exchange', text: 'Export rules.json' },
]

inChromium(() => {
  test('every page of the panel is accessible and fits, in light and dark, on a desk and a phone', async (t) => {
    const { page, at, complaints } = await start(t)
    await page.goto(at(PANEL))
    assert.deepEqual(await findFaults(page), [])
    await signIn(page)
    for (const { path, text, act } of SCENES) {
      await page.setViewportSize({ width: 1280, height: 900 })
      await page.goto(at(PANEL + path))
      await page.getByText(text).first().waitFor()
      await act?.(page)
      // The phone is as high as the longest form: what is scrolled under the row of Save counts as covered.
      for (const [width, height, colorScheme] of [
        [1280, 900, 'light'],
        [390, 3_000, 'dark'],
      ] as const) {
        await page.setViewportSize({ width, height })
        await page.emulateMedia({ colorScheme })
        assert.deepEqual(await findFaults(page), [], `${path}, ${colorScheme}`)
        assert.ok((await widthOf(page)) <= width, `${path} is ${await widthOf(page)} pixels wide at ${width}`)
        assert.deepEqual(await overflowing(page), [], `${path} at ${width}`)
      }
    }
    assert.deepEqual(
      complaints.filter((text) => !text.startsWith('Failed to load resource')),
      [],
    )
  })

  test('a link into the dashboard or the panel survives the sign-in, and a wrong password before it', async (t) => {
    const { page, at } = await start(t)
    for (const path of [
      `${DASHBOARD}offender.html?key=ip%3A203.0.113.99&days=1`,
      `${DASHBOARD}?days=30&path=%2Fauth`,
      `${PANEL}/resources/rules/records/1/edit`,
      `${PANEL}/resources/events?filters.key=ip%3A203.0.113.99`,
    ]) {
      await page.context().clearCookies()
      await page.goto(at(path))
      await signIn(page, 'wrong')
      await page.getByText('Wrong name or password.').waitFor()
      await signIn(page)
      await page.getByRole('button', { name: 'Sign out' }).waitFor()
      assert.equal(page.url(), at(path))
    }
  })

  test('dashboard and panel have the same links in the same order in one line, and mark the one that is open', async (t) => {
    const { page, at } = await start(t)
    await page.goto(at(DASHBOARD))
    assert.deepEqual(await page.getByRole('navigation').count(), 0)
    await signIn(page)
    const expected = ['Dashboard', 'Clients', 'Rules', 'Overrides and bans', 'Changes', 'Explain', 'History']
    assert.deepEqual(await links(page), expected)
    for (const name of expected) {
      await page.locator('.shell').getByRole('link', { name, exact: true }).click()
      await page.locator('.shell [aria-current="page"]').getByText(name, { exact: true }).waitFor()
      await page.getByRole('heading', { name, level: 1 }).waitFor()
      assert.deepEqual(await links(page), expected)
      await page.getByText('alice', { exact: true }).first().waitFor()
      assert.ok(((await page.locator('.shell-row').first().boundingBox())?.height ?? 100) < 60, name)
    }
  })

  test('the search of every page of the panel leads to the page of a client, however it is spelled', async (t) => {
    const { page, at, request } = await start(t)
    for (const from of ['203.0.113.99', '203.0.113.7']) await request('/api/orders', { from })
    await page.goto(at(`${PANEL}/resources/rules`))
    await signIn(page)
    for (const spelled of ['203.0.113.7', ' ip:203.0.113.7', '::ffff:203.0.113.7']) {
      await page.goto(at(`${PANEL}/resources/rules`))
      await page.getByRole('searchbox', { name: 'Find a client' }).fill(spelled)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'ip:203.0.113.7', level: 1 }).waitFor()
    }
    await page.goto(at(`${PANEL}/pages/exchange`))
    await page.getByRole('searchbox', { name: 'Find a client' }).fill('203.0.113.0/24')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Clients in this network' }).waitFor()
  })

  test('a session that ends in the middle of a form says so, keeps what was typed, and saves after a sign-in in another tab', async (t) => {
    const { page, at, database } = await start(t)
    await page.goto(at(`${PANEL}/resources/rules/actions/new`))
    await signIn(page)
    await page.getByLabel('Name', { exact: true }).fill('typed')
    await page.getByLabel('Path pattern').fill('^/typed/')
    await page.getByLabel('Rate', { exact: true }).fill('10/s, 1000/h')
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('you are signed out').waitFor()
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: 'Sign in in a new tab' }).click(),
    ])
    await signIn(tab)
    await tab.getByRole('button', { name: 'Sign out' }).waitFor()
    await tab.close()

    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'typed')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    assert.equal(await page.getByText('you are signed out').count(), 0)
    const rule = await database.client.rateLimitRule.findUnique({ where: { name: 'typed' } })
    assert.deepEqual([rule?.pathPattern, rule?.rate], ['^/typed/', '10/s, 1000/h'])
  })

  test('a duplicate links to the row that is there', async (t) => {
    const { page, at, database } = await start(t)
    await page.goto(at(`${PANEL}/resources/rules/actions/new`))
    await signIn(page)
    await page.getByLabel('Name', { exact: true }).fill('secret-rule-2')
    await page.getByLabel('Path pattern').fill('^/')
    await page.getByLabel('Rate', { exact: true }).fill('1/m')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('link', { name: 'Edit that one' }).click()
    await page.getByRole('heading', { name: 'Edit rule: secret-rule-2' }).waitFor()

    const override = await database.client.rateLimitOverride.findFirstOrThrow()
    await page.goto(at(`${PANEL}/resources/overrides/actions/new`))
    await page.getByLabel('Client', { exact: true }).fill(override.client)
    await page.getByLabel('Effect').fill('allow')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('link', { name: 'Edit that one' }).click()
    await page.waitForURL(`**/overrides/records/${override.id}/edit`)
  })

  test('by keyboard alone a rule is deleted: the dialog keeps the focus, and Escape leaves everything as it was', async (t) => {
    const { page, at, database } = await start(t)
    await page.goto(at(`${PANEL}/resources/rules`))
    await signIn(page)
    const menu = page.getByRole('button', { name: 'Actions: secret-rule', exact: true })
    await menu.focus()
    await page.keyboard.press('Enter')
    await page.getByTestId('action-delete').first().focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: /Delete this rule/ }).waitFor()
    const visited = new Set<string>()
    for (let presses = 0; presses < 6; presses++) {
      visited.add(await focused(page))
      await page.keyboard.press('Tab')
    }
    // Chromium's own controls come between the last and the first, and have no text.
    assert.deepEqual([...visited].filter((text) => text === 'Cancel' || text === 'Delete').sort(), ['Cancel', 'Delete'])
    assert.ok(!visited.has('Sign out') && !visited.has('New rule'))
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    assert.equal(await database.client.rateLimitRule.count(), 2)

    await page.getByTestId('action-delete').first().focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('Deleted.').waitFor()
    assert.equal(await database.client.rateLimitRule.count(), 1)
  })

  test('an override gets its expiry by a click, in the time of the reader, and Save is in sight all the while', async (t) => {
    const { page, at, database } = await start(t, openClockedPage)
    await page.clock.setFixedTime(Date.UTC(2026, 0, 15, 12))
    await page.setViewportSize({ width: 1280, height: 500 })
    await page.goto(at(`${PANEL}/resources/overrides/actions/new`))
    await signIn(page)
    await page.getByLabel('Client', { exact: true }).fill('user:7')
    await page.getByLabel('Effect').fill('deny')
    for (const [preset, expected] of [
      ['15 minutes', '2026-01-15T12:15'],
      ['7 days', '2026-01-22T12:00'],
      ['For ever', ''],
      ['1 hour', '2026-01-15T13:00'],
    ] as const) {
      await page.getByRole('button', { name: preset }).click()
      assert.equal(await page.getByLabel('Expires', { exact: true }).inputValue(), expected)
    }
    const save = await page.getByRole('button', { name: 'Save' }).boundingBox()
    assert.ok(save !== null && save.y + save.height <= 500)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    const override = await database.client.rateLimitOverride.findFirstOrThrow({ where: { client: 'user:7' } })
    assert.equal(override.expiresAt?.toISOString(), '2026-01-15T13:00:00.000Z')
  })

  test('a list is sorted and selected on a phone, where its cards have no head', async (t) => {
    const { page, at } = await start(t)
    await page.setViewportSize({ width: 390, height: 844 })
    await page.goto(at(`${PANEL}/resources/rules`))
    await signIn(page)
    await page.getByLabel('Sort by').selectOption('Name, descending')
    await page.waitForURL(/direction=desc&sortBy=name/)
    const first = page.locator('tbody tr').first()
    await first.getByRole('link', { name: 'secret-rule-2' }).waitFor()
    await page.getByLabel('Sort by').selectOption('Name, ascending')
    await first.getByRole('link', { name: 'secret-rule', exact: true }).waitFor()
    await page.getByRole('checkbox', { name: 'Select all' }).check()
    await page.getByText('2 selected').waitFor()
    assert.deepEqual(await findFaults(page), [])
  })

  test('the form that a link fills in suggests rates by itself, and each of them is taken over by a click', async (t) => {
    const { page, at, request } = await start(t)
    for (const from of ['203.0.113.1', '203.0.113.2', '203.0.113.2']) await request('/api/orders', { from })
    await page.goto(at(`${PANEL}/resources/rules/actions/new?pathPattern=%5E%2Fapi%2Forders&method=GET`))
    await signIn(page)
    await page.getByText('In the last 7 days 2 clients sent 3 requests to GET /api/orders.').waitFor()
    assert.deepEqual(await page.getByRole('row', { name: /^1\/m/ }).getByRole('cell').allInnerTexts(), [
      '50%',
      '1',
      '1',
      'Use',
    ])
    await page.getByRole('button', { name: 'Use 2/m' }).first().click()
    assert.equal(await page.getByLabel('Rate', { exact: true }).inputValue(), '2/m')
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'dark'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      assert.deepEqual(await findFaults(page), [])
      assert.ok((await widthOf(page)) <= width)
    }
  })

  test('a counter of several windows is shown in words', async (t) => {
    const { page, at, database } = await start(t)
    const windows = '90,1,1000,0,4,3600000,0,90'
    await database.client.rateLimitCounter.updateMany({ data: { windows } })
    await page.goto(at(`${PANEL}/resources/counters/records/${COUNTER_ID}/show`))
    await signIn(page)
    await page.getByText('4 in 1 s\n90 in 1 h').or(page.getByText('4 in 1 s 90 in 1 h')).waitFor()
  })
})
