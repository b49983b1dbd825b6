/** The page of a client says all about it, and a search finds it in any spelling. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../src/database/database.js'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { keysForClient } from '../../src/reports/client-search.js'
import { openClient, unescapeHtml } from '../support/client-forms.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const BAD = 'ip:203.0.113.66'
const HOSTILE = 'user:"><script>alert(1)</script>&{{page}}\u202e'
const DENIED = { allowed: false, count: 1, limit: 0, outcome: 'denied', policy: 'override' } as const
const OVER = { allowed: false, count: 3, limit: 2, outcome: 'over_limit' } as const

function by(client: string, its: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent> {
  return { timestampMs: NOW_MS - MINUTE_MS, client, key: client, ruleName: '', policy: 'default', ...its }
}

async function start(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const staff = { isStaff: () => ({ actor: 'alice', role: 'admin' }) as const }
  const started = await startWithStaff(t, provider, staff, { useDynamicRules: true, ...plugin })
  const { client } = started.app.smartRateLimit
  return {
    ...started,
    client,
    log: (events: readonly Partial<RateLimitEvent>[]) => logRows(databaseFor(client), events),
    open: (name: string, days?: number) => openClient(started.request, name, '', days),
    find: (text: string) => started.request(`${DASHBOARD}search.html?${new URLSearchParams({ q: text, days: '1' })}`),
  }
}

/** Returns the client to whose page an answer leads. */
function ledTo({ status, headers: { location = '' } }: { status: number; headers: { location?: string | undefined } }) {
  return status === 303 ? new URLSearchParams(location.split('?')[1]).get('client') : status
}

forAnyDatabase((provider) => {
  test('a change of what is in force is a mark on the time axis, and says what was before and after', async (t) => {
    // The history is of the database's time.
    const nowMs = Date.now() + 10 * MINUTE_MS
    const { app, client, log, open } = await start(t, provider, { clock: { now: () => nowMs } })
    const before = { timestampMs: nowMs - 11 * MINUTE_MS }
    await log([
      by(BAD, { timestampMs: nowMs - 21 * MINUTE_MS }),
      ...Array(5).fill(by(BAD, before)),
      ...Array(2).fill(by(BAD, { ...OVER, ...before })),
      ...Array(7).fill(by(BAD, { ...DENIED, timestampMs: nowMs - MINUTE_MS })),
    ])
    const updatedAt = new Date(nowMs - 10 * MINUTE_MS)
    await client.rateLimitOverride.create({ data: { client: BAD, effect: 'deny', updatedAt } })
    const { text } = await open(BAD)
    assert.match(text, /In the 10 minutes since: 0 allowed, 0 refused, 7 denied/)
    assert.match(text, /In the 10 minutes before: 5 allowed, 2 refused, 0 denied/)
    await client.rateLimitOverride.updateMany({ data: { effect: 'allow', updatedAt } })
    const exempt = (await open(BAD)).text
    assert.match(exempt, /Exempt requests are not logged\./)
    assert.doesNotMatch(exempt, /0 allowed/)
    const change = (await app.smartRateLimit.rules.history(BAD)).at(-1)
    assert.match(text, new RegExp(`<a class="mark-of-change" href="#change-${change?.id}"[^>]*>`))
    assert.match(text, new RegExp(`<li id="change-${change?.id}">`))
  })

  test('a client that overrides cannot name is offered what is possible', async (t) => {
    const { log, open } = await start(t, provider)
    const both = 'ip:203.0.113.66|header:x-key:7'
    const clients = ['header:x-key:7', 'cookie:sid:abc', 'route:/items/:id', 'key:tenant-7', 'all', 'ip:unknown', both]
    await log(clients.map((client) => by(client, { key: keysForClient(client, [])[0] ?? '' })))
    for (const client of clients) {
      const { status, text } = await open(client)
      assert.equal(status, 200, client)
      assert.match(text, /This client cannot be blocked or raised by itself/)
      assert.doesNotMatch(text, /name="token"/)
      assert.match(text, /Latest request</)
      assert.equal(text.includes('href="client.html?client&#x3D;ip%3A203.0.113.66&amp;'), client === both)
    }
  })

  test('hostile clients and parameters are text on the page, never markup and never a 500', async (t) => {
    const { client, log, open, request, find } = await start(t, provider)
    await log([by(HOSTILE, { path: '/<script>x</script>', method: '<b>', policy: '"><script>' })])
    await client.rateLimitOverride.create({ data: { client: HOSTILE, effect: 'deny', note: '<script>note</script>' } })
    for (const name of [
      HOSTILE,
      'user:\0',
      `ip:${'1'.repeat(300)}`,
      'ip:203.0.113.7/24',
      'header::',
      'x|y',
      '|',
      '\\|',
      'user:\ud800',
    ]) {
      for (const answer of [await open(name), await find(name)]) {
        assert.ok([200, 303].includes(answer.status), `${name} ${answer.status}`)
        assert.doesNotMatch(answer.text.replace('<script src="live.js"', ''), /<script/)
        // Fields are sent back unchanged.
        assert.doesNotMatch(answer.text.replace(/value="[^"]*"/g, ''), /\u202e/)
        assert.doesNotMatch(answer.text, /(?:href|action|src)="(?:\/|https?:)/)
      }
    }
    for (const query of ['', '?client=', '?client=%20', '?client=x&client=']) {
      const { status, text } = await request(`${DASHBOARD}client.html${query}`)
      assert.equal(status, 400, query)
      assert.match(unescapeHtml(text), /missing \?client= parameter/)
    }
    assert.equal((await request(`${DASHBOARD}client.html?client=%FF%`)).status, 303)
    assert.equal((await request(`${DASHBOARD}search.html?q=%FF%00`)).status, 200)
  })

  test('a search in any spelling leads to the one client, lists several, and says that there is none', async (t) => {
    const { log, find, request } = await start(t, provider)
    await log([
      by('ip:203.0.113.50', { key: 'rule:login:203.0.113.50', ruleName: 'login' }),
      by('ip:198.51.100.1'),
      by('ip:198.51.100.2'),
      by('user:7'),
      by('ip:2001:db8:1:2::/64'),
      by('user:9'),
      by('header:x-key:9', { key: 'rule:keys:9', ruleName: 'keys' }),
    ])
    for (const [text, client] of [
      ['203.0.113.50', 'ip:203.0.113.50'],
      [' 203.0.113.50 ', 'ip:203.0.113.50'],
      ['203.0.113.50:8080', 'ip:203.0.113.50'],
      ['::ffff:203.0.113.50', 'ip:203.0.113.50'],
      ['ip:203.0.113.50', 'ip:203.0.113.50'],
      ['rule:login:203.0.113.50', 'ip:203.0.113.50'],
      // The page of a network lists its clients.
      ['203.0.113.0/24', 'ip:203.0.113.0/24'],
      ['198.51.100.0/24', 'ip:198.51.100.0/24'],
      ['7', 'user:7'],
      ['user:7', 'user:7'],
      ['2001:db8:1:2::1', 'ip:2001:db8:1:2::/64'],
      ['2001:DB8:1:2:0::/64', 'ip:2001:db8:1:2::/64'],
      // Whoever is to be blocked before the first request has a page, too.
      ['192.0.2.200', 'ip:192.0.2.200'],
      ['rule:login:192.0.2.9', 'ip:192.0.2.9'],
      ['user:nobody', 'user:nobody'],
    ] as const) {
      assert.equal(ledTo(await find(text)), client, text)
    }
    const { status, text } = await find('9')
    assert.equal(status, 200)
    const listed = Array.from(text.matchAll(/href="client\.html[^"]*" title="([^"]*)"/g), ([, name]) => name)
    assert.deepEqual(listed, ['user:9', 'header:x-key:9'])
    for (const text of ['nobody', '12345', 'rule:login:nobody']) {
      const { status, text: html } = await find(text)
      assert.equal(status, 200, text)
      assert.match(
        html,
        /Nothing found for <bdi class="code">[^<]*<\/bdi><\/h2>\s*<p>Clients and paths are those of the last 24 hours/,
      )
    }
    const { text: busiest } = await request(`${DASHBOARD}clients.html`)
    assert.match(busiest, /Most requests in the last 7 days/)
    assert.match(busiest, /href="client\.html[^"]*" title="user:7"/)
    assert.match(busiest, /aria-current="page">Clients</)
  })

  test('a client without its kind is searched for, unless the log has it so', async (t) => {
    const { log, open, request } = await start(t, provider)
    await log([by('foreign')])
    for (const [typed, client] of [
      ['203.0.113.66', BAD],
      ['203.0.113.0/24', 'ip:203.0.113.0/24'],
      ['IP:2001:DB8::1', 'ip:2001:db8::1'],
      ['foreign', 200],
    ] as const) {
      const { status, headers } = await open(typed)
      const { location } = headers
      assert.equal(location === undefined ? status : ledTo(await request(DASHBOARD + location)), client, typed)
    }
  })

  test('the page of a key leads to its client', async (t) => {
    const { log, request } = await start(t, provider)
    await log([by(BAD, { key: 'rule:login:203.0.113.66', ruleName: 'login' })])
    const { text } = await request(`${DASHBOARD}offender.html?key=rule:login:203.0.113.66`)
    const [, href = ''] = /href="(search\.html[^"]*)">All about this client/.exec(text) ?? []
    assert.equal(ledTo(await request(DASHBOARD + unescapeHtml(href))), BAD)
  })

  test('a network has the timeline, limits, paths and requests of its clients, and what came of its block', async (t) => {
    const nowMs = Date.now() + 10 * MINUTE_MS
    const { client, log, open } = await start(t, provider, { clock: { now: () => nowMs } })
    const before = { timestampMs: nowMs - 11 * MINUTE_MS }
    await log([
      ...Array(3).fill(by(BAD, { ...before, path: '/search' })),
      ...Array(2).fill(by('ip:203.0.113.67', { ...OVER, ...before })),
      by('ip:198.51.100.1', before),
      ...Array(4).fill(by(BAD, { ...DENIED, timestampMs: nowMs - MINUTE_MS })),
    ])
    const updatedAt = new Date(nowMs - 10 * MINUTE_MS)
    await client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: 'deny', updatedAt } })
    const text = unescapeHtml((await open('ip:203.0.113.0/24')).text)
    assert.match(text, /aria-label="9 requests/)
    assert.match(text, /<dt>Requests<\/dt><dd>9<\/dd>/)
    assert.match(text, /class="mark-of-change"/)
    assert.match(text, /In the 10 minutes since: 0 allowed, 0 refused, 4 denied/)
    assert.match(text, /In the 10 minutes before: 3 allowed, 2 refused, 0 denied/)
    assert.match(text, /<bdi>\/search<\/bdi>/)
    assert.match(text, /title="default">.*?Each client has its own/s)
    assert.match(text, /title="override">.*?class="standing">Nothing allowed /s)
    assert.match(text, /href="client\.html\?client=ip%3A203\.0\.113\.67&days=1"><bdi>ip:203\.0\.113\.67<\/bdi>/)
    assert.match(text, /href="explain\.html\?method=GET&path=%2Fsearch&ip=203\.0\.113\.66&event=\d+&days=1"/)
  })

  test('a network lists the clients in it, and can be blocked before any of them asks', async (t) => {
    const { log, open } = await start(t, provider)
    await log([by('ip:198.51.100.1'), by('ip:198.51.100.2', OVER)])
    const { text } = await open('ip:198.51.100.0/24')
    assert.match(text, /Clients in this network/)
    for (const end of ['1', '2']) assert.match(text, new RegExp(`<bdi>ip:198\\.51\\.100\\.${end}</bdi>`))
    assert.match(text, /name="token"/)
    assert.match((await open('ip:2001:DB8::1')).text, /No requests/)
  })

  test('a list of clients has no numbers of a client without requests, and leaves the sum of a network to its page', async (t) => {
    const { log, request } = await start(t, provider)
    await log([by('ip:198.51.100.1')])
    const list = async (text: string) => (await request(`${DASHBOARD}clients.html?q=${text}`)).text
    const network = await list('198.51.100.0/24')
    assert.match(
      network,
      /title="ip:198\.51\.100\.0\/24">.*?colspan="4">Its page adds up its clients<.*?title="ip:198\.51\.100\.1">.*?>1<\/td>/s,
    )
    assert.match(await list('user:nobody'), /title="user:nobody">.*?colspan="4">No requests in this time</s)
  })
})
