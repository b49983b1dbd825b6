/** Staff go from page to page: what all pages have stays where it is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const CLIENT = 'ip:203.0.113.7'
const PAGES = [
  '',
  '?group=network&live=off&path=/',
  '?path=/nowhere',
  'search.html',
  'search.html?q=nobody',
  'events.html',
  'rules.html',
  'rule.html',
  'rule.html?named=login',
  'overrides.html',
  'override.html',
  'changes.html',
  'explain.html',
  'counters.html',
  'usage.html',
  'alerts.html',
  'exchange.html',
  'tokens.html',
  `client.html?client=${CLIENT}`,
  `offender.html?key=${CLIENT}`,
  'rule.html?id=7000',
  'offender.html',
]

/** Returns the boxes of the navigation and the title, with the first line of a title that has several. */
function boxesOf(page: Page): Promise<Record<string, number[]>> {
  return page.evaluate(`(() => {
    const box = ({ x, y, width, height }) => [x, y, width, height].map(Math.round)
    // On a phone the row of links scrolls to the one of the page.
    const here = document.querySelector('.shell-links [aria-current]')
    const { left = 0, right = 0 } = here?.getBoundingClientRect() ?? {}
    if (left < 0 || right > innerWidth) throw new Error('the link of the page is out of view')
    const row = document.querySelector('.shell-links ul')
    row.scrollLeft = 0
    const { x, y } = document.querySelector('h1').getBoundingClientRect()
    const named = [...document.querySelectorAll('.shell, .shell a, .shell input:not([type=hidden]), .shell button')].map((element) => [
      element.textContent.trim().slice(0, 20) || element.name || element.className,
      box(element.getBoundingClientRect()),
    ])
    return { ...Object.fromEntries(named), title: [x, y].map(Math.round) }
  })()`)
}

inChromium(() => {
  for (const viewport of [
    { width: 1280, height: 900 },
    { width: 390, height: 844 },
  ]) {
    test(`the navigation and the title are where they were on every page, ${viewport.width} pixels wide`, async (t) => {
      const { app, origin, clock } = await startWithStaff(t, 'sqlite', {
        isStaff: () => ({ actor: 'anna', role: 'admin' }),
      })
      const { client } = app.smartRateLimit
      await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m' } })
      await logEvents(client, { key: CLIENT, client: CLIENT, blocked: 3, atMs: clock.now() - 1_000 })
      const { page } = await openPage(t, { viewport })
      await page.goto(origin + DASHBOARD)
      const expected = await boxesOf(page)
      assert.ok(Object.keys(expected).length > 12)
      for (const path of PAGES) {
        await page.goto(origin + DASHBOARD + path)
        assert.deepEqual(await boxesOf(page), expected, path)
        assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1, path)
        assert.ok((await widthOf(page)) <= viewport.width, path)
      }
    })
  }

  test('a page that scrolls is as wide as one that does not, and names the zone of its times once', async (t) => {
    const { origin } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
    const { page } = await openPage(t, { timezoneId: 'Europe/Berlin' })
    for (const path of PAGES.filter((each) => each.endsWith('s.html') || each === '')) {
      await page.goto(origin + DASHBOARD + path)
      assert.equal(await page.evaluate('getComputedStyle(document.documentElement).overflowY'), 'scroll', path)
      assert.deepEqual(await page.getByText('Times are').allTextContents(), ['Times are Europe/Berlin'], path)
    }
    const { page: plain } = await openPage(t, { javaScriptEnabled: false })
    await plain.goto(origin + DASHBOARD)
    assert.deepEqual(await plain.getByText('Times are').allTextContents(), ['Times are UTC'])
  })
})
