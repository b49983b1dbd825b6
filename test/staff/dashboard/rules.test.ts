/** The list of all rules with what they do, and the way from a filter to the form of a rule. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS } from '../../../src/ground/time/clock.js'
import type { StaffAnswer } from '../../../src/staff/shell/staff-member.js'
import { forAnyDatabase, type Provider } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import type { Answer } from '../../support/http-client.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const IP = '203.0.113.7'

/** The rows of the tables, as readers see them. */
function rowsOf({ text }: Answer): string[] {
  return [...text.matchAll(/<tr role="row">(.*?)<\/tr>/gs)]
    .map(([, row = '']) =>
      row
        .replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((row) => !/^(?:Rule Target|Limit) Rate/.test(row))
}

forAnyDatabase((provider) => {
  test('thousands of rules are listed page by page', async (t) => {
    const { request, app } = await start(t, provider)
    const names = Array.from({ length: 401 }, (_, index) => `rule-${1_000 + index}`)
    await app.smartRateLimit.client.rateLimitRule.createMany({
      data: names.map((name) => ({ name, pathPattern: '^/', rate: '5/m' })),
    })
    const listed: string[] = []
    let page = 'rules.html'
    const lengths: number[] = []
    for (let next: string | undefined = page; next !== undefined; ) {
      page = next
      const answer = await request(DASHBOARD + page)
      const found = rowsOf(answer).flatMap((row) => /^rule-\d+/.exec(row)?.[0] ?? [])
      lengths.push(found.length)
      listed.push(...found)
      next = /href="([^"]*)" rel="next"/.exec(answer.text)?.[1]?.replaceAll('&#x3D;', '=')
    }
    assert.deepEqual(lengths, [200, 200, 1])
    assert.deepEqual(listed, names)
    for (const number of ['99', '3', ' 3 ']) {
      const { text } = await request(`${DASHBOARD}rules.html?page=${encodeURIComponent(number)}`)
      assert.match(text, /Page 3 of 3/)
      assert.match(text, /href="rules.html\?page(?:=|&#x3D;)2" rel="prev"/)
      assert.doesNotMatch(text, /rel="next"/)
    }
    for (const number of ['0', '-1', 'x', '']) {
      assert.match((await request(`${DASHBOARD}rules.html?page=${number}`)).text, /Page 1 of 3/)
    }
  })

  test('rules are listed in their order with hits and refusals of a day, and those that matched nothing for a week', async (t) => {
    const { request, app, clock, database } = await start(t, provider, true)
    const { client } = app.smartRateLimit
    const createdAt = new Date(clock.now() - 8 * DAY_MS)
    await client.rateLimitRule.createMany({
      data: [
        { name: 'login', pathPattern: '^/login', method: 'POST', rate: '1/m', priority: 5, createdAt },
        { name: 'idle', pathPattern: '^/idle', rate: '5/m, 10/h', priority: 4, createdAt },
        { name: 'weekly', pathPattern: '^/weekly', rate: '5/m', priority: 3, createdAt, block: false },
        { name: 'off', pathPattern: '^/', rate: '5/m', priority: 2, createdAt, isActive: false },
        {
          name: 'later',
          pathPattern: '^/',
          rate: '5/m',
          priority: 1,
          createdAt,
          startsAt: new Date(clock.now() + 1000),
        },
        { name: 'over', pathPattern: '^/', rate: '5/m', createdAt, endsAt: new Date(clock.now() - 1000) },
        { name: 'young', pathPattern: '^/y', rate: '5/m', priority: -1, createdAt: new Date(clock.now()) },
      ],
    })
    await logRows(database, [
      { timestampMs: clock.now() - 3 * DAY_MS, ruleName: 'weekly', policy: 'weekly', key: 'rule:weekly:x' },
    ])
    for (let times = 0; times < 3; times++) await request('/login', { method: 'POST', from: IP })
    await request('/', { from: IP })

    assert.deepEqual(rowsOf(await request(`${DASHBOARD}rules.html`)), [
      'login POST ^/login 1/m 5 In force 3 2',
      'idle ALL ^/idle 5/m, 10/h 4 In force Matched nothing for 7 days 0 0',
      'weekly ALL ^/weekly 5/m 3 In force Counts only 0 0',
      'off ALL ^/ 5/m 2 Off 0 0',
      'later ALL ^/ 5/m 1 Not yet 0 0',
      'over ALL ^/ 5/m 0 Over 0 0',
      'young ALL ^/y 5/m -1 In force Matched nothing so far 0 0',
      '/auth/ 5/m middleware.rateLimits',
      'default 2/m middleware.defaultRate',
      'ceiling 600/m middleware.ceiling',
      'reports GET /reports 7/h limit() or config',
      'route POST /orders , PUT /orders a function of the request limit() or config',
    ])
  })

  test('the page says how many requests no rule decided about', async (t) => {
    const { request, clock, database } = await start(t, provider)
    const said = async () =>
      /<p class="empty">([^.]+\.) Limits that are hooks/.exec((await request(`${DASHBOARD}rules.html`)).text)?.[1]
    const log = (ruleName: string) =>
      logRows(database, [{ timestampMs: clock.now() - 1000, ruleName, policy: ruleName || 'default', key: 'ip:x' }])

    assert.equal(await said(), 'No request was logged in the last 24 hours.')
    await log('login')
    assert.equal(await said(), 'In the last 24 hours, rules decided about every logged request.')
    await log('')
    assert.equal(
      await said(),
      'In the last 24 hours, no rule decided about 1 logged request: a limit in code, a list or an override did.',
    )
    await log('')
    assert.equal(
      await said(),
      'In the last 24 hours, no rule decided about 2 logged requests: a limit in code, a list or an override did.',
    )
  })

  test('a filter leads to the form of a rule, filled in with its requests and the rate of 95 percent of clients', async (t) => {
    const { request, app, clock, database } = await start(t, provider)
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'post-login', pathPattern: '^/', rate: '100/m', priority: 7 },
    })
    const sent = Array.from({ length: 100 }, (_, number) => ({
      timestampMs: clock.now() - 1000,
      client: `user:${number}`,
      key: `rule:post-login:user:${number}`,
      ruleName: 'post-login',
      policy: 'post-login',
      path: '/login',
      method: 'POST',
    }))
    await logRows(database, [...sent, ...sent.slice(0, 6), ...sent.slice(0, 6), ...sent.slice(0, 1)])

    const dashboard = await request(`${DASHBOARD}?path=/login&method=POST`)
    const [, href = ''] =
      /<a class="button" href="(rule-form[^"]+)">New rule for POST \/login</.exec(dashboard.text) ?? []
    const form = await request(`${DASHBOARD}${href.replaceAll('&amp;', '&').replaceAll('&#x3D;', '=')}`)
    assert.equal(form.status, 302)
    assert.deepEqual(target(form), [
      'rule.html',
      { name: 'post-login-2', pathPattern: '^/login', method: 'POST', rate: '3/m', priority: '8' },
    ])
    const edit = await request(`${DASHBOARD}rule-form?rule=post-login`)
    assert.deepEqual(target(edit), ['rule.html', { named: 'post-login' }])
    assert.match((await request(`${DASHBOARD}rules.html`)).text, /href="rule.html\?named&#x3D;post-login"/)
  })
})

test('the form for hostile filters and an empty log has a valid name and a pattern for these paths alone', async (t) => {
  const { request, app } = await start(t, 'sqlite')
  const cases: readonly (readonly [filter: Record<string, string>, fields: object])[] = [
    [{ path: '/a.b(c)+' }, { name: 'a.b-c', pathPattern: '^/a\\.b\\(c\\)\\+' }],
    [{ path: '/caf%C3%A9' }, { name: 'caf-C3-A9', pathPattern: '^/café' }],
    [{ method: 'post' }, { name: 'post', pathPattern: '^/', method: 'POST' }],
    [{ path: '/default' }, { name: 'default-rule', pathPattern: '^/default' }],
    [{ path: '/\u202e"><script>' }, { name: 'script', pathPattern: '^/\u202e"><script>' }],
    [{ path: `/${'x'.repeat(400)}` }, { name: 'x'.repeat(59) }],
    [
      { path: '/ü', rule: 'gone' },
      { name: 'every-path', pathPattern: '^/ü' },
    ],
    [{ rule: 'gone' }, { name: 'every-path', pathPattern: '^/' }],
  ]
  for (const [filter, fields] of cases) {
    const form = await request(`${DASHBOARD}rule-form?${new URLSearchParams(filter)}`)
    assert.deepEqual(target(form), ['rule.html', fields], JSON.stringify(filter))
    if (!('pathPattern' in fields)) continue
    const { id } = await app.smartRateLimit.client.rateLimitRule.create({ data: { rate: '1/m', ...fields } as never })
    await app.smartRateLimit.client.rateLimitRule.delete({ where: { id } })
  }
})

test('staff who may write no rule, or have no name, are offered no form of one', async (t) => {
  for (const staff of [true, { actor: 'olga', role: 'operator' }] as const) {
    const { request } = await start(t, 'sqlite', staff)
    assert.doesNotMatch((await request(`${DASHBOARD}?path=/login`)).text, /rule-form/)
    for (const page of ['rule-form?path=/login', 'rule.html']) {
      assert.equal((await request(DASHBOARD + page)).status, 403)
    }
    const { text } = await request(`${DASHBOARD}rules.html`)
    assert.match(text, /There are no rules yet/)
    assert.doesNotMatch(text, /New rule/)
  }
})

function target({ headers: { location = '' } }: Answer): [page: string, fields: object] {
  const { pathname, searchParams } = new URL(location, 'http://x')
  return [pathname.slice(1), Object.fromEntries(searchParams)]
}

const ALICE: StaffAnswer = { actor: 'alice', role: 'admin' }

function start(t: TestContext, provider: Provider, staff = ALICE) {
  return startWithStaff(
    t,
    provider,
    { isStaff: () => staff },
    { useDynamicRules: true, middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '5/m' }, ceiling: '600/m' } },
    (app) => {
      const orders = { onRequest: app.smartRateLimit.limit({ rate: () => '9/m' }) }
      app.get('/reports', { config: { smartRateLimit: { rate: '7/h', name: 'reports' } } }, async () => 'ok')
      app.post('/orders', orders, async () => 'ok')
      app.put('/orders', orders, async () => 'ok')
    },
  )
}
