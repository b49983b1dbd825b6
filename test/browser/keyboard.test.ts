/** Every page is used by keyboard alone: the Tab key comes to each control in turn, which shows that it has the focus. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { addToken } from '../../src/staff/api/token-table.js'
import { inChromium, openPage } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const ADDRESS = '203.0.113.7'
const CLIENT = `ip:${ADDRESS}`
const PAGES = [
  '',
  'clients.html?q=203.0.113.0/24',
  'search.html?q=login',
  `client.html?client=${CLIENT}`,
  `offender.html?key=${CLIENT}`,
  'events.html',
  `explain.html?path=/login&ip=${ADDRESS}`,
  'rules.html',
  'rule.html?named=login',
  'rule.html',
  'overrides.html',
  'override.html',
  'changes.html',
  'counters.html',
  'usage.html',
  'tokens.html',
  'exchange.html',
  'alerts.html',
]

async function start(t: TestContext) {
  const staff = { isStaff: () => ({ actor: 'alice', role: 'admin' }) as const }
  const { app, clock, database, origin, statuses } = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true })
  const { client } = app.smartRateLimit
  await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '2/m' } })
  await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
  await addToken(database, { name: 'ci', role: 'viewer', expiresAtMs: null }, clock.now())
  await statuses(3, '/login', { from: ADDRESS })
  await logEvents(client, { key: CLIENT, path: '/login', blocked: 2, atMs: clock.now() - 3_600_000 })
  await app.smartRateLimit.events.flush()
  return (path: string) => origin + DASHBOARD + path
}

// Scripts for the page are texts: its types, the DOM's, are none of this program's.

/** Notes what gets the focus, by its place among all that may, and whether that can be seen. */
const WATCH = `
  window.controls = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((its) => its.tabIndex >= 0 && !its.disabled && its.checkVisibility({ visibilityProperty: true }))
  window.visited = []
  document.addEventListener('focusin', ({ target }) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(target)
    const { top, bottom, width } = target.getBoundingClientRect()
    visited.push({
      place: controls.indexOf(target),
      html: target.outerHTML.slice(0, 200),
      isSeen: outlineStyle !== 'none' && parseFloat(outlineWidth) > 0 && width > 0 && bottom > 0 && top < innerHeight,
    })
  })
  controls.length`

interface Visited {
  readonly place: number
  readonly html: string
  readonly isSeen: boolean
}

/** Presses Tab once for each control of the page, and returns what got the focus. */
async function walk(page: Page): Promise<{ readonly count: number; readonly visited: readonly Visited[] }> {
  const count = await page.evaluate<number>(WATCH)
  for (let presses = 0; presses < count; presses++) await page.keyboard.press('Tab')
  return { count, visited: await page.evaluate<Visited[]>('visited') }
}

inChromium(() => {
  test('Ctrl K leads to the search from every page, and Escape back to where the focus was', async (t) => {
    const url = await start(t)
    for (const viewport of [
      { width: 1280, height: 900 },
      { width: 390, height: 844 },
    ]) {
      const { page, complaints } = await openPage(t, { viewport })
      const search = page.getByLabel('Search everything')
      const hasFocus = `document.activeElement.id === 'shell-search'`
      for (const path of PAGES) {
        await page.goto(url(path))
        await page.keyboard.press('Control+K')
        assert.equal(await page.evaluate(hasFocus), true, path)
        assert.equal(await search.getAttribute('placeholder'), 'Search (Ctrl K)')
      }
      await page.goto(url('events.html'))
      const field = page.getByLabel('Client or network')
      await field.fill('203.0.113.0/24')
      await page.keyboard.press('Control+k')
      await page.keyboard.type('login')
      await page.keyboard.press('Control+k')
      await page.keyboard.type('sign-in')
      assert.equal(await search.inputValue(), 'sign-in')
      await page.keyboard.press('Escape')
      assert.equal(await search.inputValue(), '')
      assert.equal(await page.evaluate('document.activeElement.id'), 'event-client')
      assert.equal(await field.inputValue(), '203.0.113.0/24')
      await page.keyboard.press('Control+k')
      await page.keyboard.type('login')
      await page.keyboard.press('Enter')
      await page.waitForURL(/search\.html\?q=login/)
      assert.deepEqual(complaints, [])
    }
  })

  test('Tab comes to every control of every page in order, each of which shows the focus, and is held by none', async (t) => {
    const url = await start(t)
    const { page } = await openPage(t)
    for (const path of PAGES) {
      await page.goto(url(path))
      const { count, visited } = await walk(page)
      assert.ok(count > 1, path)
      const wrong = visited.find(({ place, isSeen }, index) => place !== index || !isSeen)
      assert.equal(
        wrong,
        undefined,
        `${path}: ${visited.indexOf(wrong ?? visited[0] ?? { place: 0, html: '', isSeen: true })} ${JSON.stringify(wrong)}`,
      )
      assert.equal(visited.length, count, path)
    }
  })

  test('the first control of a page leads past its links to the content', async (t) => {
    const url = await start(t)
    const { page } = await openPage(t)
    for (const path of ['', 'rules.html']) {
      await page.goto(url(path))
      await page.keyboard.press('Tab')
      const skip = page.getByRole('link', { name: 'Skip to the content' })
      assert.ok(((await skip.boundingBox())?.width ?? 0) > 50, 'it is seen')
      await page.keyboard.press('Enter')
      await page.keyboard.press('Tab')
      assert.ok(await page.evaluate("document.querySelector('main').contains(document.activeElement)"), path)
    }
  })
})
