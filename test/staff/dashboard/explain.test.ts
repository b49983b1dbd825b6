/** The page that says which limits a request meets, and why. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainHref } from '../../../src/staff/dashboard/links.js'
import { readRows, unescapeHtml, withoutTimes } from '../../support/client-forms.js'
import { logEvents } from '../../support/events.js'
import type { Answer } from '../../support/http-client.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const IP = '203.0.113.7'

function pageOf(fields: Readonly<Record<string, string>>): string {
  return `${DASHBOARD}explain.html?${new URLSearchParams(fields)}`
}

/** The page without its style sheet. */
function mainOf(html: string): string {
  return html.slice(html.indexOf('<main'))
}

/** The rows of the table, as readers see them. */
function rowsOf(html: string): string[] {
  const [, body = ''] = /<tbody role="rowgroup">(.*?)<\/tbody>/s.exec(html) ?? []
  return readRows(body)
}

/** The fields of the first link of a page of the dashboard to an explanation. */
async function explanationLink(
  request: (path: string) => Promise<Answer>,
  page: string,
): Promise<Readonly<Record<string, string>>> {
  const [, href = ''] = /href="(explain\.html\?[^"]+)"/.exec((await request(DASHBOARD + page)).text) ?? []
  return Object.fromEntries(new URL(unescapeHtml(href), 'http://x/').searchParams)
}

test('the page lists the limits in the order of deciding, with why and the standing, and charges nothing', async (t) => {
  const { request, app } = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => true },
    { useDynamicRules: true, middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '5/m' }, ceiling: '9/m' } },
  )
  await app.smartRateLimit.client.rateLimitRule.create({
    data: { name: 'login', pathPattern: '^/login', method: 'POST', rate: '3/m' },
  })
  for (let times = 0; times < 2; times++) await request('/login', { method: 'POST', from: IP })

  const empty = await request(pageOf({}))
  assert.equal(empty.status, 200)
  assert.doesNotMatch(mainOf(empty.text), /<tbody|role="alert"/)

  for (let times = 0; times < 3; times++) {
    const { status, text } = await request(pageOf({ method: 'post', path: '/login?x=1', ip: IP }))
    assert.equal(status, 200)
    assert.deepEqual(rowsOf(text), [
      '1 override No No override in force is for this client and path.',
      '2 login 3/m Applies The rule matches the request. used 2, 1 left',
      '3 /auth/ 5/m No The path is not below /auth/, or a longer prefix decides.',
      '4 default 2/m No &quot;login&quot; decides before it.',
      '5 ceiling 9/m Applies It counts every checked request of the address, beside what else decides. used 2, 7 left',
    ])
    assert.match(mainOf(text), /Decided by login\. The client has used 2, 1 left: the request is within the limit\./)
  }
  await request('/login', { method: 'POST', from: IP })
  const full = await request(pageOf({ method: 'POST', path: '/login', ip: IP }))
  assert.match(mainOf(full.text), /The client has used 3, 0 left: the request is over the limit\./)
  assert.match(full.text, /href="client\.html\?client&#x3D;ip%3A203\.0\.113\.7&amp;/)
  for (const [effect, words] of [
    ['deny', 'every request is denied'],
    ['allow', 'every request is allowed'],
  ] as const) {
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `user:${effect}`, effect } })
    const { text } = await request(pageOf({ path: '/', user: effect }))
    assert.ok(mainOf(text).includes(`Decided by override. An override is for user:${effect}: ${words}.`))
  }
  const data = { client: 'ip:203.0.113.0/24', effect: 'deny' }
  await app.smartRateLimit.client.rateLimitOverride.create({ data })
  const nobody = await request(pageOf({ path: '/', user: '7' }))
  assert.equal(
    rowsOf(nobody.text)[0],
    '1 override No No override in force is for this client and path. No address was given: 1 override for addresses and networks may apply too.',
  )
  assert.match(
    mainOf(nobody.text),
    /No address was given: limits for addresses may decide otherwise, and what is used of them is not known\./,
  )
  await app.smartRateLimit.client.rateLimitOverride.deleteMany({ where: { client: data.client } })
  const other = await request(pageOf({ method: 'POST', path: '/login', ip: '203.0.113.8' }))
  assert.match(mainOf(other.text), /The client has used 0, 3 left/)
})

test('limits of the code are explained, and routes that opted out', async (t) => {
  const { request } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const { text } = await request(pageOf({ path: '/ops/dashboard/', ip: IP }))
  assert.match(mainOf(text), /No limit checks this request\./)
  assert.match(mainOf(text), /The route has opted out of the check\./)
  const user = await request(pageOf({ path: '/', user: '7', ip: '2001:db8::1' }))
  assert.match(mainOf(user.text), /Decided by default\. The client has used 0, 2 left/)
})

test('each event of a client leads to the explanation of its request', async (t) => {
  const { request, app } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  for (let asked = 0; asked < 3; asked++) await request('/a%20b?c=1', { from: IP, method: 'POST' })
  await app.smartRateLimit.events.flush()
  const [latest] = await app.smartRateLimit.client.rateLimitEvent.findMany({ orderBy: { id: 'desc' }, take: 1 })
  for (const path of ['', `offender.html?key=ip:${IP}`, `client.html?client=ip:${IP}`]) {
    const fields = await explanationLink(request, path)
    const of = { method: 'POST', path: '/a%20b', ip: IP, days: '7', event: String(latest?.id) }
    assert.deepEqual(fields, of, path)
    const page = withoutTimes(mainOf((await request(pageOf(fields))).text))
    assert.match(page, /the request is over the limit/)
    const sentence = 'At 2026-01-15 12:00:00 UTC this request was refused: 3 of 2 by default.'
    assert.ok(page.includes(sentence), path)
  }
})

test("Why? in a client's row explains its newest refusal, however much was let through since, under whatever rule", async (t) => {
  const { request, app, clock } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const { client } = app.smartRateLimit
  const now = clock.now()
  const login = { key: `rule:login:${IP}`, client: `ip:${IP}`, ruleName: 'login', path: '/login' }
  await logEvents(client, { ...login, allowed: 3, blocked: 2, atMs: now - 40 * 3_600_000 })
  await logEvents(client, { ...login, path: '/', allowed: 60, atMs: now - 40 * 3_600_000 + 1 })
  await logEvents(client, { key: `ip:${IP}`, path: '/', allowed: 60, atMs: now - 1_000 })
  const sentence = 'At 2026-01-13 20:00:00 UTC this request was refused: 5 of 3 by login.'
  for (const page of ['', '?by=requests', '?path=/login', '?days=90', '?days=30&rule=login']) {
    const fields = await explanationLink(request, page)
    assert.equal(fields.path, '/login', page)
    assert.ok(withoutTimes(mainOf((await request(pageOf(fields))).text)).includes(sentence), page)
  }
})

test('the explanation of a logged request begins with what the log has of it, and goes on with what would now', async (t) => {
  const { request, statuses, app } = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => true },
    { useDynamicRules: true },
  )
  const { client, events } = app.smartRateLimit
  await statuses(3, '/login', { from: IP })
  await client.rateLimitOverride.create({ data: { client: `ip:${IP}`, effect: '20/m' } })
  await events.flush()
  const fields = await explanationLink(request, `client.html?client=ip:${IP}`)
  assert.match(
    withoutTimes(mainOf((await request(pageOf(fields))).text)),
    /<p class="answer">At 2026-01-15 12:00:00 UTC this request was refused: 3 of 2 by default\.<\/p>\s*<p class="answer">default is a limit in the app’s code.*<p [^>]*>If it were sent now: Decided by override\./s,
  )

  const logged = { timestamp: new Date('2026-01-15T11:59:00.000Z'), key: 'user:7', client: 'user:7', path: '/' }
  for (const [decided, words] of [
    [{ outcome: 'allowed', allowed: true }, 'was allowed: 12 of 10 by login.'],
    [{ outcome: 'over_limit', allowed: true }, 'would have been refused: 12 of 10 by login.'],
    [{ outcome: 'denied', allowed: false }, 'was denied by login.'],
    [{ outcome: 'unavailable', allowed: false }, 'was rejected: no store answered for login.'],
    [{ outcome: 'denied', allowed: false, policy: '"><script>\u202e' }, 'was denied by &quot;&gt;&lt;script&gt;'],
  ] as const) {
    const data = { ...logged, method: 'GET', policy: 'login', count: 12, limit: 10, ...decided }
    const { id } = await client.rateLimitEvent.create({ data })
    const { text } = await request(pageOf({ method: 'GET', path: '/', user: '7', event: String(id) }))
    assert.ok(withoutTimes(mainOf(text)).includes(`At 2026-01-15 11:59:00 UTC this request ${words}`), words)
    assert.doesNotMatch(mainOf(text), /<script|\u202e/)
  }
})

test('a link that somebody made up says nothing of what became of a request, nor one whose event is deleted', async (t) => {
  const { request, statuses, app } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  await statuses(3, '/login', { from: IP })
  await app.smartRateLimit.events.flush()
  const fields = await explanationLink(request, `client.html?client=ip:${IP}`)
  const { event = '', ...trial } = fields
  const told = { at: '2026-01-15T11:59:00.000Z', outcome: 'denied', policy: 'login', count: '12', limit: '10' }
  const saysWhatBecame = async (asked: Readonly<Record<string, string>>) => {
    const { status, text } = await request(pageOf(asked))
    assert.equal(status, 200, JSON.stringify(asked))
    return /this request|If it came now/.test(mainOf(text))
  }
  for (const madeUp of [
    { ...trial, ...told },
    { ...fields, path: '/admin' },
    { ...fields, method: 'POST' },
    { ...fields, ip: '203.0.113.8' },
    { ...fields, user: '7' },
    { ...fields, headers: 'x-api-key: k' },
    ...['0', '-1', '1e0', `${event} OR 1=1`, '99999999', '9'.repeat(15), '9'.repeat(40)].map((id) => ({
      ...fields,
      event: id,
    })),
  ])
    assert.equal(await saysWhatBecame(madeUp), false, JSON.stringify(madeUp))

  assert.equal(await saysWhatBecame(fields), true)
  await app.smartRateLimit.client.rateLimitEvent.deleteMany()
  assert.equal(await saysWhatBecame(fields), false)
})

test('a request that cannot be is said to be wrong, and nothing that was typed runs in the page', async (t) => {
  const { request } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const hostile = '"><script>alert(1)</script>\u202e\u0000'
  const wrong: readonly (readonly [fields: Readonly<Record<string, string>>, problem: RegExp])[] = [
    [{ path: 'login' }, /Option &quot;path&quot; is/],
    [{ path: '/', ip: '300.1.1.1' }, /Option &quot;ip&quot; is/],
    [{ path: '/', ip: hostile }, /Option &quot;ip&quot; is/],
    [{ path: '/', method: 'LOOK' }, /Option &quot;method&quot; is/],
    [{ path: '/', method: hostile }, /Option &quot;method&quot; is/],
    [{ path: '/%zz' }, /router answers 400/],
  ]
  for (const [fields, problem] of wrong) {
    const { status, text } = await request(pageOf(fields))
    assert.equal(status, 400, JSON.stringify(fields))
    const [, alert = ''] = /role="alert">([^<]*)</.exec(text) ?? []
    assert.match(alert, problem)
    assert.doesNotMatch(alert, /\u202e/)
    assert.doesNotMatch(mainOf(text), /<script/)
  }
  for (const fields of [
    { path: `/${hostile}`, user: hostile },
    { path: `/${'a'.repeat(9_000)}` },
    { path: '//x/../y' },
    { path: '/', user: 'x'.repeat(5_000) },
    { path: '/', user: '__proto__' },
  ]) {
    const { status, text } = await request(pageOf(fields))
    assert.ok(status === 200 || status === 400, `${status} for ${JSON.stringify(fields).slice(0, 60)}`)
    assert.doesNotMatch(mainOf(text), /<script/)
  }
  const last = await request(`${DASHBOARD}explain.html?path=/a&path=/b&ip=${IP}`)
  assert.match(mainOf(last.text), /GET \/b/)
})

test('the headers of a request are lines of the form; what is no header is named by its line', async (t) => {
  const { request, app } = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => true },
    { useDynamicRules: true, middleware: { defaultRate: '2/m' } },
  )
  await app.smartRateLimit.client.rateLimitRule.create({
    data: {
      name: 'beta',
      pathPattern: '^/',
      rate: '7/m',
      key: 'header:x-api-key',
      condition: 'request.headers["x-plan"] == "a, b" && request.headers["cookie"] == "c=1; d=2"',
    },
  })
  const headers = 'X-Plan: a\r\nx-plan:b\r\n\r\n x-api-key: k1\ncookie: c=1\ncookie: d=2\n__proto__: x'
  const { text } = await request(pageOf({ path: '/', ip: IP, headers }))
  assert.match(mainOf(text), /Decided by beta\. The client has used 0, 7 left/)
  assert.match(mainOf(text), /<textarea name="headers"[^>]*>X-Plan: a\r?\nx-plan:b/)

  const hostile = '</textarea><script>alert(1)</script>: \u202e'
  for (const [given, problem] of [
    ['x-api-key', /Line 1 of the headers is not valid/],
    ['a: b\n: c', /Line 2 of the headers is not valid/],
    ['a: b\u0000c', /Line 1/],
    ['a b: c', /Line 1/],
    [hostile, /Line 1/],
    [Array.from({ length: 51 }, (_, place) => `a${place}: b`).join('\n'), /has 51 headers: give 50 at most/],
  ] as const) {
    const { status, text } = await request(pageOf({ path: '/', headers: given }))
    assert.equal(status, 400, given)
    assert.match(text, problem)
    assert.doesNotMatch(mainOf(text), /<script/)
  }
  for (const given of [hostile.replace(/[<>/ ()]/g, ''), 'host: "><script>', 'content-length: -1', 'a: \u202e鍵']) {
    const { status, text } = await request(pageOf({ path: '/', headers: given }))
    assert.ok([200, 400].includes(status), `${status} for ${given}`)
    assert.doesNotMatch(mainOf(text), /<script/)
  }
})

test('strangers see no explanation', async (t) => {
  const { request } = await startWithStaff(t, 'sqlite')
  for (const path of ['explain.html?path=/', 'rules.html', 'rule-form?path=/']) {
    const { status, text } = await request(`${DASHBOARD}${path}`)
    assert.equal(status, 403)
    assert.doesNotMatch(text, /default|<table/)
  }
})

test('a client of any kind is one to ask about', () => {
  const fieldsOf = (client: string) =>
    Object.fromEntries(
      new URL(explainHref({ method: 'GET', path: '/', client }, { window: { days: 7 }, back: {} }), 'http://x/')
        .searchParams,
    )
  const of = { method: 'GET', path: '/', days: '7' }
  assert.deepEqual(fieldsOf('ip:2001:db8:1:2::/64'), { ...of, ip: '2001:db8:1:2::' })
  assert.deepEqual(fieldsOf('user:a|b'), { ...of, user: 'a|b' })
  assert.deepEqual(fieldsOf('header:x-api-key:k:1'), { ...of, headers: 'x-api-key: k:1' })
  assert.deepEqual(fieldsOf('ip:203.0.113.7|header:x-a:1|cookie:sid:2|user:-'), {
    ...of,
    ip: '203.0.113.7',
    headers: 'x-a: 1\ncookie: sid=2',
  })
  for (const client of ['', 'key:tenant', 'route:/items/:id', 'all', 'ip:unknown'])
    assert.deepEqual(fieldsOf(client), of)
})
