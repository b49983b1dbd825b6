/** Whatever clients and staff write, no page of the dashboard scrolls sideways. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { asActor } from '../../src/rules/history/actor.js'
import { inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const WIDTHS = [390, 768, 1280]
/** No text has a place to break the line: the paths are as long as anybody may request one. */
const LONG = 'W'.repeat(300)
const PATH = `/${LONG}`
const RULE = 'r'.repeat(100)
const ADDRESS = '203.0.113.7'
const USER = `user:${'u'.repeat(250)}`
const HEADER = `header:x-api-key:${'h'.repeat(238)}`
const ROUTE = `ip:${ADDRESS}|route:/${'p'.repeat(220)}`

async function start(t: TestContext) {
  const started = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => ({ actor: 'a'.repeat(100), role: 'admin' }) },
    {
      useDynamicRules: true,
      middleware: { defaultRate: '2/m', rateLimits: { [`${PATH}/`]: '5/m' } },
    },
  )
  const { client, rules } = started.app.smartRateLimit
  const now = started.clock.now()
  await asActor('a'.repeat(200), async () => {
    await client.rateLimitRule.create({
      data: { name: RULE, pathPattern: `^/${'W'.repeat(200)}`, rate: '1/s, 20/m, 300/h, 4000/d', description: LONG },
    })
    for (const each of [`ip:${ADDRESS}`, USER]) {
      await client.rateLimitOverride.create({ data: { client: each, effect: '1/s, 20/m, 300/h, 4000/d', note: LONG } })
    }
  })
  await rules.reload()
  for (const [key, counted] of [
    [`ip:${ADDRESS}`, `ip:${ADDRESS}`],
    [`rule:${RULE}:${USER}`, USER],
    [`rule:${RULE}:${'h'.repeat(200)}`, HEADER],
    [ROUTE.replace('ip:', '').replace('route:', ''), ROUTE],
  ] as const) {
    const hostile = { key, client: counted, path: PATH, method: 'M'.repeat(10), ruleName: RULE }
    await logEvents(client, { ...hostile, allowed: 5, blocked: 3, denied: 2, atMs: now - 1_000 })
  }
  // Over a limit that does not block: the tables have a column more.
  const { id: _, ...event } = await client.rateLimitEvent.findFirstOrThrow({ where: { outcome: 'over_limit' } })
  await client.rateLimitEvent.create({ data: { ...event, allowed: true } })
  return started
}

/** The addresses of all pages, and of those that their links to events and clients lead to. */
async function pagesOf(request: (path: string) => Promise<{ readonly text: string }>): Promise<string[]> {
  const explained = { path: PATH, method: 'GET', ip: ADDRESS, user: USER.slice('user:'.length), headers: `x: ${LONG}` }
  const pages = [
    '',
    `?${new URLSearchParams({ path: PATH, rule: RULE, key: USER, method: 'M'.repeat(10) })}`,
    `?${new URLSearchParams({ path: `${PATH}?`, rule: `${RULE}x` })}`,
    '?group=network',
    'search.html',
    'clients.html',
    `clients.html?q=${LONG}`,
    'search.html?q=W',
    'search.html?q=/&in=paths',
    `search.html?q=${LONG}`,
    'search.html?q=203.0.113.0/24',
    ...[`ip:${ADDRESS}`, USER, HEADER, ROUTE, 'ip:203.0.113.0/24'].map((client) => {
      return `client.html?${new URLSearchParams({ client })}`
    }),
    `offender.html?${new URLSearchParams({ key: `rule:${RULE}:${USER}` })}`,
    'events.html',
    `events.html?${new URLSearchParams({ client: USER, path: PATH, rule: RULE, method: 'M'.repeat(10), since: LONG })}`,
    `events.html?${new URLSearchParams({ client: HEADER })}`,
    `events.html?${new URLSearchParams({ path: `${PATH}x` })}`,
    'rules.html',
    'overrides.html',
    'changes.html',
    'counters.html',
    'usage.html',
    'exchange.html',
    'explain.html',
    `explain.html?${new URLSearchParams(explained)}`,
    `explain.html?${new URLSearchParams({ ...explained, ip: LONG })}`,
    LONG,
  ]
  const linked = await Promise.all(
    pages.map(async (page) => {
      const { text } = await request(DASHBOARD + page)
      return Array.from(text.matchAll(/href="(explain\.html\?[^"]*event[^"]*)"/g), ([, href = '']) => href)
    }),
  )
  const events = [...new Set(linked.flat())]
    .slice(0, 3)
    .map((href) => href.replaceAll('&amp;', '&').replaceAll('&#x3D;', '='))
  return [...pages, ...events]
}

inChromium(() => {
  test('no page scrolls sideways with paths, names, clients and values of 300 characters', async (t) => {
    const { origin, request } = await start(t)
    const { page } = await openPage(t)
    for (const address of await pagesOf(request)) {
      await page.goto(origin + DASHBOARD + address)
      await page.evaluate("for (const its of document.querySelectorAll('details')) its.open = true")
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 })
        const found = await widthOf(page)
        assert.ok(found <= width, `${address.slice(0, 80)} is ${found} pixels wide at ${width}`)
      }
    }
  })
})
