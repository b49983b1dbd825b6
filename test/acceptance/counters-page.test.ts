/** The page of the counters, as a browser without JavaScript uses it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Policy } from '../../src/limiter/algorithm.js'
import { DatabaseStore } from '../../src/limiter/stores/sql/database-store.js'
import { forAnyDatabase } from '../support/databases.js'
import { openForms } from '../support/staff-forms.js'

const FIVE: Policy = { algorithm: 'fixed_window', limit: 5, periodMs: 60_000 }
const ADDRESS = '203.0.113.7'

/** Returns the clients and limits of the rows of a page. */
function listed(html: string): string[] {
  const rows = html.matchAll(/<th scope="row"[\s\S]*?<bdi>([^<]*)<\/bdi>[\s\S]*?<bdi>([^<]*)<\/bdi>/g)
  return [...rows].map(([, client, limit]) => `${limit} of ${client}`)
}

function keysOf(html: string): string[] {
  return [...html.matchAll(/name="key" value="([^"]+)"/g)].map(([, key = '']) => key)
}

forAnyDatabase((provider) => {
  test('a client in any spelling finds its counters of limits and rules, with what is used', async (t) => {
    const { get, request, app } = await openForms(t, provider, 'viewer')
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'login', pathPattern: '^/login', rate: '5/m' },
    })
    await app.smartRateLimit.rules.reload()
    for (const path of ['/', '/login', '/login']) await request(path, { from: ADDRESS })
    await request('/', { from: '203.0.113.70' })
    for (const spelling of [ADDRESS, `ip:${ADDRESS}`, `::ffff:${ADDRESS}`]) {
      const { text } = await get(`counters.html?q=${spelling}`)
      assert.deepEqual(listed(text).toSorted(), [`default of ip:${ADDRESS}`, `rule login of ip:${ADDRESS}`], spelling)
    }
    const { text } = await get('counters.html?q=login')
    assert.deepEqual(listed(text), [`rule login of ip:${ADDRESS}`])
    assert.match(text, /<span class="window">2 in 60 seconds<[\s\S]*data-label="Limit">5\/m</)
    assert.equal(listed((await get('counters.html?q=default')).text).length, 2)
    assert.equal(listed((await get('counters.html?q=log_n')).text).length, 0)
    assert.match((await get('counters.html?q=nobody%00%F0')).text, /No counter matches that client/)
  })

  test('an operator resets ticked counters, or all of a client, and the client goes on at once', async (t) => {
    const { open, get, request, statuses, log, app } = await openForms(t, provider, 'operator')
    app.log.level = 'info'
    assert.deepEqual(await statuses(3, '/', { from: ADDRESS }), [200, 200, 429])
    const page = await open(`counters.html?q=${ADDRESS}`)
    const sent = await page.submit({ key: keysOf(page.text), q: ADDRESS }, {}, 'counters.html')
    assert.deepEqual([sent.status, sent.headers.location], [303, `counters.html?q=${ADDRESS}`])
    assert.match((await get(`counters.html?q=${ADDRESS}`, sent)).text, /1 counter was reset/)
    assert.deepEqual(await statuses(3, '/', { from: ADDRESS }), [200, 200, 429])
    await page.submit({ client: ADDRESS }, {}, 'counters.html')
    assert.equal((await request('/', { from: ADDRESS })).status, 200)
    const lines = log.map((line) => Object(line)).filter(({ msg }) => msg.startsWith('Counters were reset'))
    assert.deepEqual(
      lines.map(({ keys, actor }) => [keys, actor]),
      [
        [[`default|ip:${ADDRESS}`], 'alice'],
        [[`ip:${ADDRESS}`], 'alice'],
      ],
    )
  })

  test('a counter whose name was shortened, and one in a namespace, are reset; those of another namespace are not shown', async (t) => {
    const { open, database, clock, app } = await openForms(t, provider, 'operator', {
      useDynamicRules: true,
      namespace: 'shop',
    })
    const client = app.smartRateLimit.client
    const [own, other] = ['shop', 'other'].map((namespace) => new DatabaseStore({ database: client, namespace }))
    const long = `default|header:x-key:${'k'.repeat(300)}`
    for (const key of [long, 'default|ip:192.0.2.1']) {
      for (const store of [own, other]) await store?.check([{ key, policy: FIVE, cost: 1 }], clock.now())
    }
    const page = await open('counters.html')
    const keys = keysOf(page.text)
    assert.equal(keys.length, 2)
    assert.ok(keys.every((key) => key.startsWith('shop|')))
    await page.submit({ key: [...keys, 'other|default|ip:192.0.2.1'] }, {}, 'counters.html')
    const { dialect } = database
    const rows = await database.query<{ key: string }>(
      `SELECT key FROM ${dialect.table('rate_limit_counter')} ORDER BY key`,
    )
    assert.deepEqual(
      rows.map(({ key }) => key.slice(0, 14)),
      ['other|default|', 'other|default|'],
    )
  })

  test('the limits of the staff pages are never reset', async (t) => {
    const { open, database, clock, app } = await openForms(t, provider, 'operator')
    const key = 'staff-sign-in|ip:192.0.2.1'
    const store = new DatabaseStore({ database: app.smartRateLimit.client })
    await store.check(
      [
        { key, policy: FIVE, cost: 1 },
        { key: 'default|ip:192.0.2.1', policy: FIVE, cost: 1 },
      ],
      clock.now(),
    )
    const page = await open('counters.html')
    assert.deepEqual(keysOf(page.text), ['default|ip:192.0.2.1'])
    await page.submit({ key }, {}, 'counters.html')
    const [row] = await database.query<{ count: number }>(
      `SELECT COUNT(*) AS count FROM ${database.dialect.table('rate_limit_counter')} WHERE key = $1`,
      [key],
    )
    assert.equal(row?.count, 1)
  })

  test('counters of all algorithms are listed by name, a page at a time', async (t) => {
    const { get, app, clock } = await openForms(t, provider, 'viewer')
    const store = new DatabaseStore({ database: app.smartRateLimit.client })
    const algorithms = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket', 'concurrency'] as const
    const checks = Array.from({ length: 230 }, (_, index) => ({
      key: `default|user:${1000 + index}`,
      policy: { ...FIVE, algorithm: algorithms[index % 5] ?? 'fixed_window' },
      cost: 2,
      permit: index + 1,
    }))
    await store.check(checks, clock.now())
    const pages: string[][] = []
    let page = await get('counters.html')
    assert.match(page.text, /2 of 5 in 60 seconds/)
    assert.match(page.text, /2 in progress/)
    for (;;) {
      pages.push(listed(page.text))
      const next = /href="([^"]+)" rel="next"/.exec(page.text)?.[1]?.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&')
      if (next === undefined) break
      page = await get(next)
    }
    assert.deepEqual(
      pages.flat(),
      checks.map(({ key }) => `default of ${key.slice('default|'.length)}`),
    )
    assert.deepEqual(
      pages.map(({ length }) => length),
      [100, 100, 30],
    )
  })

  test('a viewer resets nothing, and with counters in memory a client is reset by its name', async (t) => {
    const viewer = await openForms(t, provider, 'viewer')
    await viewer.request('/', { from: ADDRESS })
    const page = await viewer.open('counters.html')
    assert.equal((await page.submit({ client: ADDRESS }, {}, 'counters.html')).status, 403)

    const { open, statuses } = await openForms(t, provider, 'operator', {
      middleware: { backend: 'memory', defaultRate: '2/m' },
    })
    assert.deepEqual(await statuses(3, '/', { from: ADDRESS }), [200, 200, 429])
    const form = await open(`counters.html?q=${ADDRESS}`)
    assert.match(form.text, /so they cannot be listed/)
    assert.match(form.text, /Reset its counters/)
    await form.submit({ client: ADDRESS }, {}, 'counters.html')
    assert.deepEqual(await statuses(1, '/', { from: ADDRESS }), [200])
  })
})
