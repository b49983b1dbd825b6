/** Staff open the pages in a browser: in any light, at any width, without a mouse and without JavaScript. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import type { DashboardOptions } from '../../src/dashboard.js'
import { staffAccounts } from '../../src/dashboard.js'
import type { RateLimitOptions } from '../../src/index.js'
import { asActor } from '../../src/rules/history/actor.js'
import { offenderHref } from '../../src/staff/dashboard/links.js'
import { findFaults, focused, inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { long } from '../support/long.js'
import { ACCOUNTS, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const BAD = 'rule:login:203.0.113.7'
const BAD_CLIENT = 'ip:203.0.113.7'
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
const TABLET = { viewport: { width: 768, height: 1024 } }
const SCHEMES = ['dark', 'light'] as const
/** Three looks of each page; all of them with `ALL_LOOKS=1`. */
const LOOKS =
  process.env.ALL_LOOKS === undefined
    ? ([
        { ...PHONE, colorScheme: 'dark' },
        { ...TABLET, colorScheme: 'dark' },
        { ...DESK, colorScheme: 'light' },
      ] as const)
    : SCHEMES.flatMap((colorScheme) => [PHONE, TABLET, DESK].map((size) => ({ ...size, colorScheme })))
const STAFF: DashboardOptions = { isStaff: () => true }

const VIEWER: DashboardOptions = { isStaff: () => 'viewer' }
const ADMIN: DashboardOptions = { isStaff: () => ({ actor: 'anna', role: 'admin' }) }
const ALICE: DashboardOptions = { isStaff: () => ({ actor: 'alice', role: 'operator' }) }

interface AppOptions {
  readonly plugin?: RateLimitOptions
  readonly staff?: DashboardOptions
  readonly isEmpty?: boolean
}

interface Scene {
  readonly name: string
  readonly path: string
  readonly act?: (page: Page) => Promise<unknown>
}

/** What is opened in turn, in apps of their own. */
const SCENES: readonly (AppOptions & { readonly scenes: readonly Scene[] })[] = [
  {
    scenes: [
      { name: 'the dashboard', path: '' },
      { name: 'the dashboard of an hour, by requests', path: '?minutes=60&by=requests' },
      { name: 'a dashboard of networks', path: '?group=network&live=off' },
      { name: 'a filtered dashboard', path: `?rule=login&method=POST&path=/auth&key=${BAD}` },
      { name: 'a dashboard filtered by a hostile path', path: `?path=/${'W'.repeat(255)}` },
      { name: 'a dashboard whose filter nothing passes', path: `?rule=${'W'.repeat(100)}` },
      { name: "a client's page", path: `offender.html?key=${BAD}` },
      { name: "a hostile client's page", path: `offender.html?key=${'W'.repeat(255)}` },
      { name: 'all about a client that no override can name', path: `client.html?client=header:x:${'W'.repeat(240)}` },
      { name: 'a search that finds clients', path: 'search.html?q=9' },
      { name: 'a search that finds all else, too', path: 'search.html?q=W' },
      { name: 'a search without a text', path: 'search.html' },
      { name: 'a search for too long a text', path: `search.html?q=${'W'.repeat(600)}` },
      { name: 'a search that finds nothing', path: `search.html?q=${'W'.repeat(255)}x` },
      { name: 'an error', path: 'offender.html' },
      { name: 'an address without a page', path: 'nowhere.html' },
      { name: 'the list of clients', path: 'clients.html' },
      { name: 'the clients that a text means', path: 'clients.html?q=203.0.113.0/24' },
      { name: 'the list of rules', path: 'rules.html' },
      { name: 'the events', path: 'events.html' },
      { name: 'filtered events', path: 'events.html?client=203.0.113.0/24&outcome=refused&since=2026-01-14' },
      { name: 'events that there are not', path: 'events.html?client=user:99' },
      { name: 'a filter of events that is wrong', path: 'events.html?since=yesterday&until=x' },
      { name: 'alerts without a channel', path: 'alerts.html' },
      { name: 'the form that explains', path: 'explain.html' },
      { name: 'an explanation without an address', path: 'explain.html?path=/auth/login&user=9' },
      { name: 'a request that cannot be explained', path: 'explain.html?path=/&ip=nowhere' },
    ],
  },
  {
    staff: ALICE,
    scenes: [
      { name: 'the dashboard of an operator', path: '' },
      { name: 'the list of rules of an operator', path: 'rules.html?q=w&tick=all' },
      { name: 'a rule of an operator, with its history', path: `rule.html?named=${'W'.repeat(100)}`, act: openAll },
      { name: 'the changes, with what is old and new', path: 'changes.html', act: openAll },
      { name: 'the changes of a range that is no moment', path: 'changes.html?since=yesterdayish' },
      { name: 'overrides, all ticked', path: 'overrides.html?tick=all' },
      { name: 'a search for overrides that finds none', path: `overrides.html?q=${'W'.repeat(255)}x` },
      {
        name: 'the form of an override whose fields are all wrong',
        path: 'override.html',
        act: async (page) => {
          for (const field of await page.locator('.entry :is(input:not([type]), textarea)').all()) {
            await field.fill(`"><b>${'W'.repeat(300)}`)
          }
          await page.getByRole('button', { name: 'Save' }).last().click()
          await page.getByText(/^Nothing was saved/).waitFor()
        },
      },
      {
        name: 'a question before all addresses are denied',
        path: 'override.html?client=0.0.0.0/0&effect=deny',
        act: async (page) => {
          await page.getByRole('button', { name: 'Save' }).last().click()
          await page.getByText('every IPv4 client').first().waitFor()
        },
      },
      { name: 'counters, and a search for one', path: 'counters.html?q=203.0.113.7' },
      { name: 'usage, and months that are none', path: 'usage.html?unit=tokens&since=2026-13' },
      { name: 'the form of an import', path: 'exchange.html', act: openAll },
      {
        name: 'an import that is compared',
        path: 'exchange.html',
        act: async (page) => {
          await openAll(page)
          const overrides = HOSTILE.slice(0, 1).map((name) => ({ client: `user:${name.slice(5)}`, effect: 'deny' }))
          await page.getByRole('textbox', { name: 'Document' }).fill(JSON.stringify({ version: 1, overrides }))
          await page.getByRole('button', { name: 'Show what would change' }).click()
          await page
            .getByRole('heading', { name: /would be changed/ })
            .first()
            .waitFor()
          await openAll(page)
        },
      },
      { name: 'all about a client', path: `client.html?client=${BAD_CLIENT}` },
      { name: 'all about a hostile client', path: `client.html?client=user:${'W'.repeat(250)}` },
      { name: 'all about a network', path: 'client.html?client=ip:203.0.113.0/24' },
      { name: 'an explanation', path: 'explain.html?method=POST&path=/auth/login&ip=203.0.113.7' },
      {
        name: 'a dashboard with all that folds open',
        path: '?days=1',
        act: openAll,
      },
      {
        name: 'an action that failed',
        path: 'client.html?client=ip:192.0.2.2',
        act: async (page) => {
          await openAll(page)
          await page.getByLabel('Rate for all paths together, such as 300/m').fill('fast')
          await page.getByRole('button', { name: 'Set this rate' }).click()
          await page.getByRole('alert').waitFor()
        },
      },
      {
        name: 'a form that is out of date',
        path: 'client.html?client=ip:192.0.2.2',
        act: async (page) => {
          await page.context().clearCookies()
          await page
            .getByRole('button', { name: /^Block/ })
            .first()
            .click()
          await page.getByText('out of date').waitFor()
        },
      },
      {
        name: 'a client after a raise, and a block of it',
        path: 'client.html?client=ip:192.0.2.2',
        act: async (page) => {
          await openAll(page)
          await page.getByRole('button', { name: 'Set this rate' }).click()
          await page.getByText('Limited to').first().waitFor()
          await openAll(page)
          await page.getByRole('button', { name: 'Block', exact: true }).click()
          await page.getByText('The block takes precedence').waitFor()
          await openAll(page)
        },
      },
    ],
  },
  {
    staff: ALICE,
    plugin: {
      alertEmails: [`ops@${'w'.repeat(200)}.example.com`],
      defaultFromEmail: 'alerts@example.com',
      alertWebhook: 'http://127.0.0.1:1/hook',
      alertWebhookFormat: 'pagerduty',
      alertRoutingKey: 'R'.repeat(32),
    },
    scenes: [
      {
        name: 'alerts whose channels fail',
        path: 'alerts.html',
        act: async (page) => {
          await page.getByRole('button', { name: 'Send a test message' }).click()
          await page.getByRole('alert').waitFor()
        },
      },
    ],
  },
  {
    staff: VIEWER,
    scenes: [
      { name: 'all about a client, for a viewer', path: `client.html?client=${BAD_CLIENT}` },
      { name: 'the list of rules of a viewer', path: 'rules.html?order=-refused' },
      { name: 'a rule of a viewer', path: `rule.html?named=${'W'.repeat(100)}` },
    ],
  },
  {
    staff: ADMIN,
    scenes: [
      { name: 'the list of rules of an admin', path: 'rules.html?tick=all&state=off' },
      { name: 'a search for rules that finds none', path: `rules.html?q=${'W'.repeat(255)}` },
      { name: 'the tokens', path: 'tokens.html' },
      {
        name: 'a token that was created, and one that cannot be',
        path: 'tokens.html',
        act: async (page) => {
          await page.getByLabel('Name', { exact: true }).fill('deploy')
          await page.getByRole('button', { name: /Create/ }).click()
          await page.getByText(/fsr_/).first().waitFor()
          await page.getByLabel('Name', { exact: true }).fill('W'.repeat(90))
          await page.getByRole('button', { name: /Create/ }).click()
        },
      },
      {
        name: 'a rule that was disabled, with Undo',
        path: 'rules.html',
        act: async (page) => {
          await page
            .getByRole('button', { name: /^Enable W/ })
            .first()
            .click()
          await page.getByRole('button', { name: 'Undo' }).waitFor()
        },
      },
      { name: 'the form of a new rule, all open', path: 'rule.html?pathPattern=^/auth', act: openAll },
      {
        name: 'the form of a rule whose fields are all wrong, with what the log says',
        path: `rule.html?named=${'W'.repeat(100)}`,
        act: async (page) => {
          await openAll(page)
          await page.getByRole('button', { name: 'Suggest rates' }).click()
          await page.getByText('The log has no requests of').waitFor()
          await openAll(page)
          for (const field of await page.locator('.entry :is(input:not([type]), textarea)').all()) {
            await field.fill(`"><b>${'W'.repeat(300)}`)
          }
          await page.getByRole('button', { name: 'Save' }).last().click()
          await page.getByText(/^Nothing was saved: \d+ fields are wrong/).waitFor()
          await openAll(page)
        },
      },
      {
        name: 'priorities that are wrong, in the list',
        path: 'rules.html',
        act: async (page) => {
          for (const field of await page.locator('.priority').all()) await field.fill('W'.repeat(300))
          await page.getByRole('button', { name: 'Save priorities' }).last().click()
          await page.getByText('see the priorities that are marked').waitFor()
        },
      },
    ],
  },
  {
    staff: VIEWER,
    isEmpty: true,
    scenes: [{ name: 'the list of rules of a viewer, where there are none', path: 'rules.html' }],
  },
  { plugin: { logEvents: 'blocked' }, scenes: [{ name: 'a dashboard of refusals alone', path: '' }] },
  { plugin: { logEvents: false }, scenes: [{ name: 'the dashboard of a server that logs nothing', path: '' }] },
  {
    isEmpty: true,
    scenes: [
      { name: 'an empty dashboard', path: '' },
      { name: "an unknown client's page", path: `offender.html?key=${'W'.repeat(255)}x` },
    ],
  },
  {
    plugin: { logEvents: false },
    isEmpty: true,
    scenes: [{ name: 'an empty dashboard without a log', path: '' }],
  },
  {
    staff: { staff: staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET }) },
    scenes: [
      { name: 'the sign-in', path: '' },
      {
        name: 'the sign-in after a wrong password',
        path: '',
        act: async (page) => {
          await page.getByLabel('Name').fill('alice')
          await page.getByLabel('Password').fill('wrong')
          await page.getByRole('button', { name: 'Sign in' }).click()
          await page.getByRole('alert').waitFor()
        },
      },
    ],
  },
  { staff: { isStaff: () => false }, scenes: [{ name: 'a refusal', path: '' }] },
]

function openAll(page: Page): Promise<unknown> {
  return page.evaluate("for (const its of document.querySelectorAll('details')) its.open = true")
}

async function start(t: TestContext, { plugin, staff = STAFF, isEmpty = false }: AppOptions = {}) {
  const started = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true, ...plugin })
  if (!isEmpty) {
    const { client } = started.app.smartRateLimit
    await client.rateLimitOverride.create({ data: { client: 'ip:192.0.2.1', effect: 'deny' } })
    await asActor('W'.repeat(200), () =>
      client.rateLimitRule.create({
        data: {
          name: 'W'.repeat(100),
          description: 'W'.repeat(900),
          pathPattern: `^/${'W'.repeat(250)}`,
          condition: `request.path == '${'W'.repeat(900)}'`,
          rate: `1/s, 2/m, 3/h${' '.repeat(200)}, 10000/month`,
          isActive: false,
          block: false,
          refusalMessage: 'W'.repeat(500),
        },
      }),
    )
    for (const last of [1, 2, 3]) {
      await logEvents(client, { key: `ip:192.0.2.${last}`, blocked: 2, denied: 3, atMs: NOW_MS - 2 * 86_400_000 })
    }
    const login = { key: BAD, path: '/auth/login', method: 'POST', ruleName: 'login' }
    await logEvents(client, { ...login, allowed: 5, blocked: 9, atMs: NOW_MS - 1_000 })
    await logEvents(client, { ...login, allowed: 5, blocked: 2, atMs: NOW_MS - 30 * 3_600_000 })
    for (const key of ['ip:203.0.113.8', 'user:9', 'user:9|/items']) {
      await logEvents(client, { ...login, key, allowed: 1, blocked: 1, atMs: NOW_MS - 30 * 3_600_000 })
    }
    for (const [hostile, effect] of [
      [BAD_CLIENT, 'deny'],
      [`user:${'W'.repeat(250)}`, `1/s, 2/m, 3/h${' '.repeat(200)}`],
    ] as const) {
      await asActor('W'.repeat(200), () =>
        client.rateLimitOverride.create({ data: { client: hostile, effect, note: 'W'.repeat(900) } }),
      )
    }
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
  test(
    'every page is clean under axe-core in light and dark, fits a phone, and keeps to its policy',
    long(),
    async (t) => {
      const { page, complaints } = await openPage(t)
      for (const { scenes, ...options } of SCENES) {
        const { url } = await start(t, options)
        await page.context().clearCookies()
        for (const { name, path, act } of scenes) {
          await t.test(name, async () => {
            const answer = await page.goto(url(path))
            // The script, which all pages share, is below 12 kB.
            assert.ok(gzipSync((await answer?.body()) ?? '').length < 48_000, 'a first load is above 60 kB')
            await act?.(page)
            for (const { viewport, colorScheme } of LOOKS) {
              await page.setViewportSize(viewport)
              await page.emulateMedia({ colorScheme })
              const width = await widthOf(page)
              assert.ok(width <= viewport.width, `${width} pixels wide`)
              assert.deepEqual(await findFaults(page), [])
            }
            // What the server refuses, a browser notes too.
            assert.deepEqual(
              complaints.splice(0).filter((text) => !text.startsWith('Failed to load resource')),
              [],
            )
            assert.doesNotMatch(await page.title(), /owned/)
          })
        }
      }
    },
  )

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
      await page.getByRole('group', { name: /^46 requests, 25 \(54\.3%\) of them refused/ }).innerHTML(),
      /<rect/,
    )
  })

  test('the filter is filled in and sent by keyboard alone, and a filter is taken away', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    await page.goto(url('?days=30'))
    const names: string[] = []
    for (let presses = 0; presses < 40 && !names.at(-1)?.startsWith('Filter'); presses++) {
      await page.keyboard.press('Tab')
      names.push(await focused(page))
    }
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    assert.equal(await focused(page), 'rule')
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

  test('the filter is folded, opens over what is below, and shows what is filtered while it is closed', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    for (const { viewport } of [PHONE, DESK]) {
      await page.setViewportSize(viewport)
      await page.goto(url('?path=/auth'))
      const [field, chart] = [page.getByLabel('Path begins with'), page.locator('svg.chart')]
      const before = await chart.boundingBox()
      assert.ok((before?.y ?? Number.NaN) < viewport.height)
      assert.equal(await field.isVisible(), false)
      await page.getByRole('link', { name: 'Remove the filter Path begins with /auth' }).waitFor()
      await page.locator('.filter > summary').click()
      assert.equal(await field.inputValue(), '/auth')
      assert.equal(await field.isVisible(), true)
      assert.deepEqual(await chart.boundingBox(), before)
      assert.deepEqual(await findFaults(page), [])
      // One fold closes the other.
      await page.getByText('Choose a time').click()
      assert.equal(await field.isVisible(), false)
    }
  })

  test('a button of the menu takes reason and length, and Enter in a field none of the actions, without JavaScript too', async (t) => {
    const { url, app } = await start(t, { staff: ALICE, isEmpty: true })
    const { page } = await openPage(t, { javaScriptEnabled: false })
    const overrides = app.smartRateLimit.client.rateLimitOverride
    const rate = page.getByLabel('Rate for all paths together, such as 300/m')
    await page.goto(url(`client.html?client=${BAD_CLIENT}`))
    await page.getByText('Actions for').click()
    for (const field of [page.getByLabel('another time'), page.getByLabel('Why?'), rate]) await field.press('Enter')
    assert.equal(await overrides.count(), 0)
    for (const [name, effect, until] of [
      ['Block', 'deny', '2026-01-15T15:00'],
      ['Set this rate', '7/m', '2026-01-15T15:00'],
      ['Exempt from all limits', 'allow', '2026-01-15T15:00'],
      ['Block ip:203.0.113.7 for 2 h', 'deny', '2026-01-15T14:00'],
    ] as const) {
      await page.goto(url(`client.html?client=${BAD_CLIENT}`))
      await page.getByText('Actions for').click()
      await page.getByLabel('another time').fill('3h')
      await page.getByLabel('Why?').fill('scrapes')
      await rate.fill('7/m')
      await page.getByRole('button', { name, exact: true }).click()
      await page.getByRole('status').filter({ hasText: /until/ }).waitFor()
      const [written] = await overrides.findMany()
      assert.deepEqual(
        [written?.effect, written?.note, written?.expiresAt?.toISOString().slice(0, 16)],
        [effect, 'scrapes', until],
      )
      await overrides.deleteMany()
    }
  })

  test('the window and the filter stay on the way through the pages', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    await page.goto(url('?minutes=60&path=/auth'))
    const kept = [
      ['minutes', '60'],
      ['path', '/auth'],
    ]
    const links = page.getByRole('navigation', { name: 'Rate limits' })
    for (const name of ['Clients', 'Explain', 'Rules', 'Dashboard']) {
      await links.getByRole('link', { name, exact: true }).click()
      await page.waitForURL((to) => to.searchParams.get('minutes') === '60')
    }
    assert.deepEqual([...new URL(page.url()).searchParams], kept)
    await page.getByLabel('Search everything').fill('203.0.113.7')
    await page.getByLabel('Search everything').press('Enter')
    await page.getByRole('heading', { name: BAD_CLIENT }).waitFor()
    await page.getByRole('link', { name: 'Why?' }).first().click()
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('link', { name: BAD_CLIENT }).click()
    await page.getByRole('link', { name: 'Back to the dashboard' }).click()
    assert.deepEqual([...new URL(page.url()).searchParams], kept)
  })

  test('without JavaScript staff sign in, filter, look at a key, come back filtered, and sign out', async (t) => {
    const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
    const { url } = await start(t, { staff: { staff } })
    const { page } = await openPage(t, { ...PHONE, javaScriptEnabled: false })
    await page.goto(url(''))
    await page.getByLabel('Name').fill('alice')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.locator('.filter > summary').click()
    await page.getByLabel('Path begins with').fill('/auth')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByRole('button', { name: '30 days' }).click()

    await page.goto(url(offenderHref(BAD, { days: 30 }, { path: '/auth' })))
    await page.getByRole('heading', { name: BAD }).waitFor()
    await page.getByRole('button', { name: '24 h' }).click()
    await page.getByRole('link', { name: 'Back to the dashboard' }).click()
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
