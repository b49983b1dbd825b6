/** Staff open the pages in a browser: in any light, at any width, without a mouse and without JavaScript. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { DashboardOptions, RateLimitOptions } from '../../src/index.js'
import { staffAccounts } from '../../src/index.js'
import { findFaults, focused, inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { ACCOUNTS, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const BAD = 'rule:login:203.0.113.7'
/** As long as the log holds, and without a place to break the line; and all else that pages choke on. */
const HOSTILE = [
  'W'.repeat(255),
  '<script>document.title = "owned"</script>',
  '"><img src=x onerror=alert(1)>',
  "' style='position:fixed' x='",
  '\u202egnp.exe\u0007',
  '鍵'.repeat(100),
  '{{page}}',
  'a\u0300'.repeat(120),
]

const PHONE = { viewport: { width: 360, height: 740 } }
const DESK = { viewport: { width: 1280, height: 900 } }
const STAFF: DashboardOptions = { isStaff: () => true }

interface Scene {
  readonly name: string
  readonly path: string
  readonly plugin?: RateLimitOptions
  readonly staff?: DashboardOptions
  readonly isEmpty?: boolean
}

const SCENES: readonly Scene[] = [
  { name: 'the dashboard', path: '' },
  { name: 'a filtered dashboard', path: `?rule=login&method=POST&path=/auth&key=${BAD}` },
  { name: 'a dashboard filtered by a hostile path', path: `?path=/${'W'.repeat(255)}` },
  { name: 'a dashboard whose filter nothing passes', path: `?rule=${'W'.repeat(100)}` },
  { name: 'a dashboard of refusals alone', path: '', plugin: { logEvents: 'blocked' } },
  { name: 'the dashboard of a server that logs nothing', path: '', plugin: { logEvents: false } },
  { name: 'an empty dashboard', path: '', isEmpty: true },
  { name: 'an empty dashboard without a log', path: '', plugin: { logEvents: false }, isEmpty: true },
  { name: "a client's page", path: `offender.html?key=${BAD}` },
  { name: "a hostile client's page", path: `offender.html?key=${'W'.repeat(255)}` },
  { name: "an unknown client's page", path: `offender.html?key=${'W'.repeat(255)}x`, isEmpty: true },
  { name: 'the sign-in', path: '', staff: { staff: staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET }) } },
  { name: 'a refusal', path: '', staff: { isStaff: () => false } },
  { name: 'an error', path: 'offender.html' },
]

async function start(t: TestContext, { plugin, staff = STAFF, isEmpty = false }: Omit<Scene, 'name' | 'path'> = {}) {
  const started = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true, ...plugin })
  if (!isEmpty) {
    const { client } = started.app.smartRateLimit
    const login = { key: BAD, path: '/auth/login', method: 'POST', ruleName: 'login' }
    await logEvents(client, { ...login, allowed: 5, blocked: 9, atMs: NOW_MS - 1_000 })
    await logEvents(client, { ...login, allowed: 5, blocked: 2, atMs: NOW_MS - 30 * 3_600_000 })
    for (const key of HOSTILE) {
      const hostile = {
        key,
        path: `/${key}${key}`.slice(0, 500),
        method: key.slice(0, 10),
        ruleName: key.slice(0, 100),
      }
      await logEvents(client, { ...hostile, allowed: 2, blocked: 2, atMs: NOW_MS - 1_000 })
    }
  }
  return { ...started, url: (path: string) => `${started.origin}${DASHBOARD}${path}` }
}

inChromium(() => {
  for (const { name, path, ...scene } of SCENES) {
    test(`${name} is clean under axe-core in light and dark, fits a phone, and keeps to its policy`, async (t) => {
      const { url } = await start(t, scene)
      const { page, complaints } = await openPage(t)
      await page.goto(url(path))
      for (const { viewport, colorScheme } of [
        { ...PHONE, colorScheme: 'dark' },
        { ...DESK, colorScheme: 'light' },
      ] as const) {
        await page.setViewportSize(viewport)
        await page.emulateMedia({ colorScheme })
        const width = await widthOf(page)
        assert.ok(width <= viewport.width, `${width} pixels wide`)
        assert.deepEqual(await findFaults(page), [])
      }
      // What the server refuses, a browser notes too.
      assert.deepEqual(
        complaints.filter((text) => !text.startsWith('Failed to load resource')),
        [],
      )
      assert.doesNotMatch(await page.title(), /owned/)
    })
  }

  test('the chart opens as a table, by keyboard', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t, PHONE)
    await page.goto(url('?days=1'))
    const summary = page.getByText('The same as a table')
    await summary.focus()
    await page.keyboard.press('Enter')

    await page.getByRole('cell', { name: '46' }).waitFor()
    assert.ok((await widthOf(page)) <= 360)
    assert.deepEqual(await findFaults(page), [])
    assert.match(
      await page.getByRole('img', { name: /^46 requests, 25 \(54\.3%\) of them blocked/ }).innerHTML(),
      /<rect/,
    )
  })

  test('the filter is filled in and sent by keyboard alone, and a filter is taken away', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    await page.goto(url('?days=30'))
    const names: string[] = []
    for (let presses = 0; presses < 12 && names.at(-1) !== 'rule'; presses++) {
      await page.keyboard.press('Tab')
      names.push(await focused(page))
    }
    assert.equal(names.at(-1), 'rule')
    await page.keyboard.type('login')
    for (const name of ['path', 'method', 'key']) {
      await page.keyboard.press('Tab')
      assert.equal(await focused(page), name)
    }
    await page.keyboard.type(BAD)
    await Promise.all([page.waitForURL(/key=/), page.keyboard.press('Enter')])

    const { searchParams } = new URL(page.url())
    assert.deepEqual(
      [...searchParams],
      [
        ['days', '30'],
        ['rule', 'login'],
        ['path', ''],
        ['method', ''],
        ['key', BAD],
      ],
    )
    assert.equal(await page.getByLabel('Rule', { exact: true }).inputValue(), 'login')
    await page.getByRole('link', { name: 'Remove the filter Rule login' }).focus()
    await Promise.all([page.waitForURL((to) => !to.searchParams.has('rule')), page.keyboard.press('Enter')])
    assert.deepEqual(
      [...new URL(page.url()).searchParams],
      [
        ['days', '30'],
        ['key', BAD],
      ],
    )
  })

  test('without JavaScript staff sign in, filter, look at a client, come back filtered, and sign out', async (t) => {
    const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
    const { url } = await start(t, { staff: { staff } })
    const { page } = await openPage(t, { ...PHONE, javaScriptEnabled: false })
    await page.goto(url(''))
    await page.getByLabel('Name').fill('alice')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByLabel('Path begins with').fill('/auth')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByRole('button', { name: '30 days' }).click()

    await page.getByRole('link', { name: BAD }).first().click()
    await page.getByRole('heading', { name: BAD }).waitFor()
    await page.getByRole('button', { name: '24 hours' }).click()
    await page.getByRole('link', { name: 'Rate limits' }).click()
    assert.deepEqual(
      [...new URL(page.url()).searchParams],
      [
        ['days', '1'],
        ['path', '/auth'],
      ],
    )

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })
})
