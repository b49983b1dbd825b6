/** What staff see of the dashboard before they scroll, during incidents; and how far they scroll on a phone. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { demoRoutes, tellDemoPast } from '../../scripts/example/demo.js'
import { findFaults, focused, inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const DESK = { width: 1280, height: 900 }
/** With a finger, whose targets are larger. */
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }
const HOUR_MS = 3_600_000
/** All but the lists of clients, events and counters, which are as long as their rows. */
const PAGES = [
  '',
  '?group=network',
  'search.html?q=login',
  'clients.html',
  'events.html',
  'counters.html',
  'client.html?client=user:1007',
  'client.html?client=ip:203.0.113.0/24',
  'offender.html?key=rule:login:192.0.2.200',
  'explain.html?method=POST&path=/login&ip=203.0.113.10',
  'rules.html',
  'rule.html?named=login',
  'rule.html',
  'overrides.html',
  'override.html',
  'changes.html',
  'usage.html',
  'tokens.html',
  'exchange.html',
  'alerts.html',
]

async function startDemo(t: TestContext) {
  const started = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => ({ actor: 'anna', role: 'admin' }) },
    { useDynamicRules: true },
    (app) => app.register(demoRoutes),
  )
  await tellDemoPast(started.app, '100/m', started.clock.now())
  return { ...started, url: started.origin + DASHBOARD }
}

/** Returns the lower end of an element, in pixels of the page. */
async function endOf(page: Page, selector: string): Promise<number> {
  const { y, height } = (await page.locator(selector).first().boundingBox()) ?? { y: Number.NaN, height: 0 }
  return y + height
}

inChromium(() => {
  test('at 1280 × 900 the sentence, four incidents, the chart and the first clients are in view', async (t) => {
    const { url } = await startDemo(t)
    const { page } = await openPage(t, { viewport: DESK })
    await page.goto(url)
    const lead = page.locator('.lead')
    assert.match(
      (await lead.textContent()) ?? '',
      /^203\.0\.113\.0\/24 causes \d+% of the refusals in the last 7 days\.$/,
    )
    assert.equal(await page.getByRole('region', { name: 'Incidents' }).getByRole('listitem').count(), 4)
    const ends = [
      await endOf(page, '.lead'),
      await endOf(page, '.controls'),
      await endOf(page, '.incidents'),
      await endOf(page, '.figures'),
      await endOf(page, 'svg.chart'),
      await endOf(page, '.clients tbody tr:nth-child(2)'),
    ]
    assert.deepEqual(
      ends,
      ends.toSorted((one, other) => one - other),
    )
    assert.ok((ends.at(-1) ?? Number.NaN) <= DESK.height, ends.join())

    await lead.getByRole('link').click()
    await page.getByRole('heading', { name: 'ip:203.0.113.0/24', level: 1 }).waitFor()
  })

  for (const javaScriptEnabled of [true, false]) {
    const how = javaScriptEnabled ? 'with the script' : 'without it'
    test(`a phone shows the first five of each list, and all of one where asked, ${how}`, async (t) => {
      const { url } = await startDemo(t)
      const { page } = await openPage(t, { ...PHONE, javaScriptEnabled })
      await page.goto(url)
      const rows = page.getByRole('region', { name: 'Clients' }).getByRole('row')
      // One of them is the header.
      assert.equal(await rows.count(), 1 + 5)
      assert.ok((await heightOf(page)) <= 3_500, `${await heightOf(page)} pixels long`)
      assert.equal(await widthOf(page), 390)

      const showAll = page.getByRole('region', { name: 'Clients' }).locator('.more > summary')
      await showAll.focus()
      await page.keyboard.press('Enter')
      assert.ok((await rows.count()) > 6)
      assert.equal(await page.locator('.more[open]').count(), 1, 'each list by itself')
      assert.equal(await widthOf(page), 390)
      if (javaScriptEnabled) assert.deepEqual(await findFaults(page), [])
      await page.getByRole('region', { name: 'Clients' }).getByText('Show fewer').click()
      assert.equal(await rows.count(), 1 + 5)
    })
  }

  test('no page of the demo is longer than 3,500 pixels on a phone', async (t) => {
    const { url } = await startDemo(t)
    const { page } = await openPage(t, PHONE)
    for (const path of PAGES) {
      const answer = await page.goto(url + path)
      assert.equal(answer?.status(), 200, path)
      assert.ok((await heightOf(page)) <= 3_500, `${path}: ${await heightOf(page)} pixels long`)
    }
  })

  test('of more than four incidents the others are one click away, and so is what is rarely done, by keyboard', async (t) => {
    const { app, clock, origin } = await startWithStaff(
      t,
      'sqlite',
      { isStaff: () => ({ actor: 'anna', role: 'admin' }) },
      { useDynamicRules: true },
    )
    for (const id of [1, 2, 3, 4, 5, 6]) {
      const name = `user:${id}`
      const its = { key: name, client: name, blocked: 50 + id, path: '/search', atMs: clock.now() - HOUR_MS / 12 }
      await logEvents(app.smartRateLimit.client, its)
    }
    const { page } = await openPage(t, { viewport: DESK })
    await page.goto(origin + DASHBOARD)
    const incidents = page.getByRole('region', { name: 'Incidents' })
    assert.equal(await incidents.getByRole('listitem').count(), 4)
    await incidents.getByText('Show all 6').click()
    assert.equal(await incidents.getByRole('listitem').count(), 6)

    await incidents.getByRole('link', { name: 'user:2', exact: true }).focus()
    const names: string[] = []
    for (let presses = 0; presses < 4; presses++) {
      await page.keyboard.press('Tab')
      names.push(await focused(page))
    }
    // The first one is the button that blocks, by its field.
    assert.match(names.join(), /^for,Raise the limit of user:2,Actions for user:2.+,More about user:2/)

    const chart = await endOf(page, 'svg.chart')
    await incidents.getByText('More about user:2').focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    assert.equal(await focused(page), 'Make a rule against user:2')
    assert.equal(await endOf(page, 'svg.chart'), chart, 'what is below stays where it is')
    assert.deepEqual(await findFaults(page), [])
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByText('1 ignored').waitFor()
    assert.equal(await incidents.getByText('user:2').count(), 0)

    await page.getByText('1 ignored').focus()
    for (const key of ['Enter', 'Tab', 'Tab']) await page.keyboard.press(key)
    assert.equal(await focused(page), 'Watch again user:2')
    await page.keyboard.press('Enter')
    await incidents.getByText('Show all 6').waitFor()
    assert.equal(await page.getByText('1 ignored').count(), 0)
  })

  test('an incident that is open, acted on, over or ignored has no fault under axe-core, light and dark', async (t) => {
    const { app, clock, origin } = await startWithStaff(
      t,
      'sqlite',
      { isStaff: () => ({ actor: 'anna', role: 'admin' }) },
      { useDynamicRules: true },
    )
    for (const [client, hoursAgo] of [
      ['user:open', 0.1],
      ['user:blocked', 0.1],
      ['user:ignored', 0.1],
      ['user:over', 3],
    ] as const) {
      const its = { key: client, client, blocked: 60, path: '/search', atMs: clock.now() - hoursAgo * HOUR_MS }
      await logEvents(app.smartRateLimit.client, its)
    }
    const { page } = await openPage(t, { viewport: DESK })
    await page.goto(origin + DASHBOARD)
    const incidents = page.getByRole('region', { name: 'Incidents' }).getByRole('listitem')
    await incidents
      .filter({ hasText: 'user:blocked' })
      .getByRole('button', { name: /^Block/ })
      .click()
    await page.getByRole('status').filter({ hasText: 'Denied until' }).waitFor()
    await page.goto(origin + DASHBOARD)
    await page.getByText('More about user:ignored').click()
    await page.getByRole('button', { name: 'Ignore user:ignored' }).click()
    await page.getByText('1 ignored').click()
    await page.getByRole('button', { name: 'Watch again user:ignored' }).waitFor()
    await incidents.filter({ hasText: 'user:blocked' }).getByText('Blocked', { exact: true }).waitFor()
    await page.getByText('More about user:open').click()
    await proveAccessible(page)

    const at = (hoursAgo: number) => `${new Date(clock.now() - hoursAgo * HOUR_MS).toISOString().slice(0, 16)}Z`
    await page.goto(`${origin}${DASHBOARD}?since=${at(4)}&until=${at(2)}`)
    await incidents.filter({ hasText: 'user:over' }).getByText('It is over.').waitFor()
    await proveAccessible(page)
  })
})

/** Proves that a page has no fault at both widths, light and dark. */
async function proveAccessible(page: Page): Promise<void> {
  for (const viewport of [DESK, PHONE.viewport]) {
    await page.setViewportSize(viewport)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      assert.deepEqual(await findFaults(page), [], `${viewport.width} ${colorScheme}`)
    }
    assert.ok((await widthOf(page)) <= viewport.width)
  }
  await page.setViewportSize(DESK)
}

function heightOf(page: Page): Promise<number> {
  return page.evaluate<number>('document.scrollingElement.scrollHeight')
}
