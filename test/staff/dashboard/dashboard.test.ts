/** What the dashboard says of the log, and how it is filtered. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../../src/database/database.js'
import type { RateLimitOptions } from '../../../src/index.js'
import { offenderHref } from '../../../src/staff/dashboard/links.js'
import { withoutTimes } from '../../support/client-forms.js'
import { logEvents } from '../../support/events.js'
import { foldRollups } from '../../support/rollups.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OFFENDER = { key: 'rule:login:203.0.113.7', path: '/auth/login', method: 'POST', ruleName: 'login' }

function start(t: TestContext, plugin: RateLimitOptions = {}) {
  return startWithStaff(t, 'sqlite', { isStaff: () => true }, plugin)
}

async function startWithTraffic(t: TestContext, plugin: RateLimitOptions = {}) {
  const started = await start(t, plugin)
  const { client } = started.app.smartRateLimit
  await logEvents(client, { ...OFFENDER, allowed: 2, blocked: 3, atMs: NOW_MS - 60_000 })
  await logEvents(client, { key: 'ip:198.51.100.1', path: '/api/items', allowed: 1, blocked: 1, atMs: NOW_MS - 60_000 })
  const page = async (query: string) => (await started.request(DASHBOARD + query)).text
  return { ...started, page }
}

/** The texts of the first column of a table, by the id of its heading. */
function namesIn(text: string, id: string): string[] {
  const [, section = ''] = new RegExp(`aria-labelledby="${id}">(.*?)</section>`, 's').exec(text) ?? []
  return Array.from(
    section.matchAll(/<th scope="row"[^>]*>\s*(?:<div class="who">\s*)?<[^>]+>(?:<bdi>)?([^<]*)/g),
    ([, name = '']) => name,
  )
}

test('a filter is trimmed, cut to what the log can hold, and the last one when repeated; blanks are none', async (t) => {
  const { page } = await startWithTraffic(t)
  const totals = async (query: string) => /<dt>Requests<\/dt><dd>(\d+)</.exec(await page(query))?.[1] ?? '0'
  const table: Record<string, string> = {
    'rule=%20login%20': '5',
    'rule=': '7',
    'rule=%20%20': '7',
    'rule=%00': '7',
    'rule=nonesuch&rule=login': '5',
    'rule=login&rule=': '7',
    'path=/api': '2',
    'path=/API': '0',
    'method=gEt': '2',
    'key=ip:198.51.100.1': '2',
    'key=ip:198': '0',
    'key=203.0.113.7': '5',
    'client=ip:203.0.113.7': '5',
    'client=203.0.113.0/24': '5',
    'client=': '7',
    [`path=${'x'.repeat(3000)}`]: '0',
    [`method=${'%C3%9F'.repeat(300)}`]: '0',
    'rule=%ED%A0%80&key=%FF': '0',
  }
  for (const [query, total] of Object.entries(table)) assert.equal(await totals(`?${query}`), total, query)
  assert.match(await page(`?path=${'x'.repeat(3000)}`), /<input name="path" value="x{500}"/)
})

test('the page of a key leads back to the dashboard as it was filtered', async (t) => {
  const { page } = await startWithTraffic(t)
  const offender = await page(offenderHref(OFFENDER.key, { days: 30 }, { rule: 'login', key: OFFENDER.key }))

  assert.match(
    offender,
    /class="back" href="\.\/\?days&#x3D;30&amp;rule&#x3D;login&amp;key&#x3D;rule%3Alogin%3A203\.0\.113\.7"/,
  )
  assert.match(offender, /<input type="hidden" name="back" value="rule&#x3D;login&amp;key&#x3D;/)
  const hostile = await page('offender.html?key=x&back=https%3A%2F%2Fexample.com%2F%3Frule%3Da')
  assert.match(hostile, /class="back" href="\.\/\?days&#x3D;7"/)
})

test('a server that logs nothing says whose requests it shows', async (t) => {
  const { page } = await startWithTraffic(t, { logEvents: false })

  assert.match(await page(''), /This server logs no requests/)
  assert.match(await page(`offender.html?key=${OFFENDER.key}`), /This server logs no requests/)
})

test('of a log of refusals alone no page shows a rate, or who is near a limit', async (t) => {
  const { request, statuses } = await start(t, { logEvents: 'blocked', middleware: { defaultRate: '0/m' } })
  await statuses(3, '/')
  for (const path of ['', 'offender.html?key=ip:127.0.0.1']) {
    const { text } = await request(DASHBOARD + path)
    const shown = text.replace(/<style>.*<\/style>/s, '').replace(/<[^>]*>/g, ' ')
    assert.match(shown, /Only refusals are logged/)
    assert.doesNotMatch(shown, /Refusal rate|Near a limit|%/)
    assert.doesNotMatch(text, />Refusal rate</)
    assert.doesNotMatch(text, /aria-label="[^"]*%/)
  }
})

test('events that were lost are a warning, with the reason beside the numbers of this process', async (t) => {
  const { app, request, statuses } = await start(t)
  await statuses(2, '/')
  const before = await request(DASHBOARD)
  assert.match(before.text, /<dt>Written<\/dt><dd>2<\/dd>[\s\S]*<dt>Lost<\/dt><dd>0<\/dd>/)
  assert.doesNotMatch(before.text, /Last error/)

  await app.smartRateLimit.client.$executeRawUnsafe(
    "CREATE TRIGGER refused BEFORE INSERT ON rate_limit_event BEGIN SELECT RAISE(ABORT, 'it is refused'); END",
  )
  await statuses(1, '/')
  await app.smartRateLimit.events.flush()
  await app.smartRateLimit.client.$executeRawUnsafe('DROP TRIGGER refused')
  const { text } = await request(DASHBOARD)

  assert.match(text, /1 event of this process was lost/)
  assert.match(
    text,
    /<dt>Lost<\/dt><dd class="lost">1<\/dd>[\s\S]*<dt>Last error<\/dt><dd><span class="code">it is refused/,
  )
})

test('clients that are near a limit now are listed with the rule and how much of it they used', async (t) => {
  const { app, request } = await start(t)
  const event = { path: '/', method: 'GET', allowed: true, limit: 100, timestamp: new Date(NOW_MS - 50_000) }
  const api = { ...event, key: 'rule:api:user:7', ruleName: 'api' }
  await app.smartRateLimit.client.rateLimitEvent.createMany({
    data: [
      { ...api, count: 99 },
      { ...event, key: 'ip:192.0.2.1', count: 80 },
      { ...event, key: 'ip:192.0.2.2', count: 99, timestamp: new Date(NOW_MS - 61_000) },
      { ...event, key: 'ip:192.0.2.3', count: 99 },
      { ...event, key: 'ip:192.0.2.3', count: 2, timestamp: new Date(NOW_MS - 1_000) },
      { ...event, key: 'ip:192.0.2.4', count: 99 },
      { ...event, key: 'ip:192.0.2.4', count: 101, allowed: false, timestamp: new Date(NOW_MS - 1_000) },
    ],
  })
  const { text } = await request(DASHBOARD)

  assert.deepEqual(namesIn(text, 'near'), ['user:7'])
  assert.match(
    text,
    /by <bdi>api<\/bdi>[\s\S]*<td role="cell" class="number" data-label="Used">99%<\/td>\s*<td role="cell" class="number">99 of 100<\/td>/,
  )
  assert.match(withoutTimes(text), /Based on 6 requests of the last 60 seconds, since 11:59:00 UTC/)
  const filtered = (await request(`${DASHBOARD}?key=192.0.2.2&days=1`)).text
  assert.match(filtered, /No request that matches the filter in the last 60 seconds/)
})

test('what is not listed is one row, the last', async (t) => {
  const { app, request } = await start(t)
  const { client } = app.smartRateLimit
  for (let number = 0; number < 23; number++) {
    await logEvents(client, { key: 'ip:a', path: `/${number}`, allowed: 1, atMs: NOW_MS - 1 })
  }
  const names = namesIn((await request(DASHBOARD)).text, 'paths')

  assert.deepEqual([names.length, names.at(-1)], [21, 'other paths'])
})

test('a filter by path says how many requests it had to leave out', async (t) => {
  const { app, page } = await startWithTraffic(t)
  const strange = Array.from({ length: 300 }, (_, place) => ({
    timestamp: new Date(NOW_MS - 60_000),
    key: 'ip:192.0.2.9',
    path: `/strange/${place}`,
    method: 'GET',
    allowed: true,
    count: 1,
    limit: 2,
  }))
  await app.smartRateLimit.client.rateLimitEvent.createMany({ data: strange })
  await foldRollups(databaseFor(app.smartRateLimit.client))

  assert.match(await page('?path=%2Fauth'), /<b>46 requests are left out\.<\/b>/)
  assert.doesNotMatch(await page(''), /left out/)
})
