/** Staff look at the reports, as a page, as CSV and as JSON; other clients get nothing, and nothing that a client sent does harm. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DashboardOptions } from '../../src/dashboard.js'
import { unescapeHtml } from '../support/client-forms.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { cookieOf, DASHBOARD, PASSWORD, startWithStaff } from '../support/staff-app.js'

const BAD = '203.0.113.66'

forAnyDatabase((provider) => {
  test('the CSV has the offenders in CRLF lines as an attachment, the JSON the drill-down with blocked 3', async (t) => {
    const { statuses, request } = await startWithStaff(t, provider, { isStaff: () => true })
    await statuses(5, '/login', { from: BAD })

    const csv = await request(`${DASHBOARD}offenders.csv?days=1`)
    assert.equal(csv.status, 200)
    assert.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
    assert.equal(csv.headers['content-disposition'], 'attachment; filename="ratelimit_offenders.csv"')
    assert.equal(csv.text, `key,blocked_count\r\nip:${BAD},3\r\n`)

    for (const path of [`offender/?key=ip:${BAD}`, `offender/?key=nobody&key=ip%3A${BAD}`]) {
      const detail = await request(DASHBOARD + path)
      assert.equal(detail.status, 200)
      assert.match(String(detail.headers['content-type']), /^application\/json/)
      const { key, days, blocked, total, block_rate, by_path } = JSON.parse(detail.text)
      assert.deepEqual([key, days, blocked, total, block_rate], [`ip:${BAD}`, 7, 3, 5, 0.6])
      assert.deepEqual(by_path, [{ path: '/login', blocked_count: 3 }])
    }
  })

  test('a CSV begins with its header line, and as the pages link to it with the mark that spreadsheets need', async (t) => {
    const { statuses, request, app } = await startWithStaff(
      t,
      provider,
      { isStaff: () => true },
      { usage: ['tokens'] },
      (app) => {
        app.get('/charged', (request) => app.smartRateLimit.charge(request, { tokens: 3 }))
      },
    )
    await statuses(1, '/charged', { from: BAD })
    const { events, analytics } = app.smartRateLimit
    await events.flush()
    await eventually('usage', async () => (await analytics.getUsage({ unit: 'tokens' })).rows.length === 1)
    const linked = new Set<string>()
    for (const page of ['', 'events.html', 'usage.html', `client.html?client=ip:${BAD}&days=1`]) {
      const { text } = await request(DASHBOARD + page)
      for (const [, href = ''] of text.matchAll(/href="(\w+\.csv[^"]*)"/g)) {
        const address = unescapeHtml(href)
        const [file = ''] = address.split('?')
        linked.add(file)
        const marked = await request(DASHBOARD + address)
        assert.equal(marked.status, 200, address)
        const plain = await request(DASHBOARD + address.replace(/[?&]bom=1$/, ''))
        assert.equal(marked.text, `\ufeff${plain.text}`, address)
        assert.match(plain.text, /^[a-z_,]+\r\n/, address)
      }
    }
    assert.deepEqual([...linked].toSorted(), ['clients.csv', 'events.csv', 'offenders.csv', 'usage.csv'])
    assert.match((await request(`${DASHBOARD}offenders.csv?bom=0`)).text, /^key,/)
  })

  test('a missing or empty key is a 400 that says so; a key without events is a 200 with zeros', async (t) => {
    const { request } = await startWithStaff(t, provider, { isStaff: () => true })
    for (const query of ['', '?key=', '?days=7', '?key=x&key=']) {
      const { status, text } = await request(`${DASHBOARD}offender/${query}`)
      assert.deepEqual([status, JSON.parse(text)], [400, { error: 'missing ?key= parameter' }], query)
    }

    const { status, text } = await request(`${DASHBOARD}offender/?key=nobody`)
    assert.equal(status, 200)
    const zeros = { total: 0, allowed: 0, blocked: 0, block_rate: 0, first_seen: null, last_seen: null }
    assert.deepEqual(JSON.parse(text), { key: 'nobody', days: 7, ...zeros, by_path: [], recent_events: [] })
  })

  test('days is trimmed, clamped to 1..365, 7 when it is no whole number, and the last one when repeated', async (t) => {
    const { request } = await startWithStaff(t, provider, { isStaff: () => true })
    const table: Record<string, number> = {
      'days=1': 1,
      'days=365': 365,
      'days=366': 365,
      'days=0': 1,
      'days=-3': 1,
      'days=%2B30': 30,
      'days=%2030%20': 30,
      'days=007': 7,
      'days=99999999999999999999': 365,
      'days=abc': 7,
      'days=7.5': 7,
      'days=1e2': 7,
      'days=0x10': 7,
      'days=': 7,
      'days=%D9%A3': 7,
      'days=3&days=30': 30,
      'days=3&days=abc': 7,
      'days[]=3': 7,
    }
    for (const [query, days] of Object.entries(table)) {
      const { text } = await request(`${DASHBOARD}offender/?key=x&${query}`)
      assert.equal(JSON.parse(text).days, days, query)
      assert.equal((await request(`${DASHBOARD}?${query}`)).status, 200, query)
    }
  })

  const CHECKS: Record<string, DashboardOptions> = {
    'no check at all': {},
    'isStaff false': { isStaff: () => false },
    'isStaff that throws': {
      isStaff: () => {
        throw new Error('no sessions')
      },
    },
    'isStaff that rejects': { isStaff: () => Promise.reject(new Error('no sessions')) },
    'isStaff that answers something like true': { isStaff: () => Object('yes') },
  }
  for (const [name, check] of Object.entries(CHECKS)) {
    test(`with ${name} every path is 403, before any parameter is looked at`, async (t) => {
      const { request } = await startWithStaff(t, provider, check)
      const paths = [
        '',
        '?days=abc',
        'offenders.csv',
        'offender/',
        'offender/?key=x',
        'offender',
        'nothing',
        '%6ffender/',
      ]
      for (const path of paths) {
        for (const method of ['GET', 'HEAD']) {
          const { status, text } = await request(DASHBOARD + path, { method })
          assert.equal(status, 403, `${method} ${path}`)
          assert.doesNotMatch(text, /missing \?key/)
        }
      }
    })
  }

  test('no rule locks the staff out: "." at 0/m spares their pages, and nothing about them is logged', async (t) => {
    const { app, request, statuses, signIn } = await startWithStaff(t, provider, undefined, { useDynamicRules: true })
    await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '0/m' } })
    assert.deepEqual(await statuses(1, '/'), [429])

    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    for (const path of ['', 'offenders.csv', 'offender/?key=x']) {
      const { status, headers } = await request(DASHBOARD + path, { headers: { cookie } })
      assert.deepEqual([status, headers['x-ratelimit-limit']], [200, undefined], path)
    }
    await app.smartRateLimit.events.flush()
    assert.equal(await app.smartRateLimit.client.rateLimitEvent.count(), 1)
  })

  test('every staff answer forbids caching, inline scripts and sniffing; other methods find nothing', async (t) => {
    const { request } = await startWithStaff(t, provider, { isStaff: () => true })
    for (const path of ['', 'offenders.csv', 'offender/?key=x', 'offender/']) {
      const { headers } = await request(DASHBOARD + path)
      assert.equal(headers['cache-control'], 'no-store', path)
      assert.equal(headers['x-content-type-options'], 'nosniff', path)
      assert.match(String(headers['content-security-policy']), /default-src 'none'/, path)
      assert.doesNotMatch(String(headers['content-security-policy']), /script-src[^;]*unsafe/, path)
      assert.ok(headers['referrer-policy'], path)
    }
    for (const method of ['POST', 'PUT', 'DELETE']) {
      assert.ok([404, 405].includes((await request(DASHBOARD, { method })).status), method)
    }
  })

  test('hostile keys are text on the page, never markup, and never a formula in the CSV', async (t) => {
    const { request, statuses } = await startWithStaff(
      t,
      provider,
      { isStaff: () => true },
      {
        middleware: { defaultRate: '0/m', key: ({ headers }) => decodeURIComponent(String(headers['x-name'])) },
      },
    )
    const names = [
      '<script>alert(1)</script>',
      '=cmd|calc',
      '"quoted", and more',
      '{{page}}',
      "@'x",
      'x;=cmd()',
      '＝cmd()',
    ]
    for (const name of names) await statuses(1, '/', { headers: { 'x-name': encodeURIComponent(name) } })

    const page = await request(DASHBOARD)
    assert.equal(page.status, 200)
    assert.doesNotMatch(page.text, /<script>alert/)
    const csv = (await request(`${DASHBOARD}offenders.csv`)).text.split('\r\n')
    assert.ok(csv.includes('"\'=cmd|calc",1'))
    assert.ok(csv.includes('"""quoted"", and more",1'))
    assert.ok(csv.includes('"\'@\'x",1'))
    assert.ok(csv.includes('"x;=cmd()",1'))
    assert.ok(csv.includes('"\'＝cmd()",1'))
  })
})
