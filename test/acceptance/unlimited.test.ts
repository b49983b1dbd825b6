/** A function may answer that a request has no limit: null counts nothing, and whatever else limits the request still does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { ERROR, openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase } from '../support/databases.js'

const ALICE = '203.0.113.7'
const KNOWN = { headers: { 'x-known': 'yes' }, from: ALICE }
const STRANGER = { from: ALICE }

const rate = ({ headers }: Pick<FastifyRequest, 'headers'>) => (headers['x-known'] === 'yes' ? null : '2/m')
const LIMIT_HEADER = /ratelimit|retry-after/

function limitHeaders(headers: object): string[] {
  return Object.keys(headers).filter((name) => LIMIT_HEADER.test(name))
}

forEachDatabase((provider) => {
  for (const [when, defaultRate] of [
    ['at once', rate],
    ['later', async (request: FastifyRequest) => rate(request)],
  ] as const) {
    test(`a request for which defaultRate answers null ${when} is logged, and counts nothing`, async (t) => {
      const database = await openDatabase(t, provider)
      const { app, request, statuses } = await startApp(t, {
        database,
        plugin: { logEvents: true, headers: 'both', middleware: { defaultRate } },
      })
      for (let times = 0; times < 3; times++) {
        const { status, headers } = await request('/', KNOWN)
        assert.deepEqual([status, limitHeaders(headers)], [200, []])
      }
      assert.deepEqual(await statuses(3, '/', STRANGER), [200, 200, 429])
      assert.deepEqual(await statuses(1, '/', KNOWN), [200])
      await app.smartRateLimit.events.flush()
      const rows = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
      const told = rows.map(({ key, policy, client, outcome, allowed, count, limit }) => {
        return [key, policy, client, outcome, allowed, count, limit]
      })
      assert.deepEqual(told[0], [`ip:${ALICE}`, 'default', `ip:${ALICE}`, 'allowed', true, 0, 0])
      assert.deepEqual(
        told.map(([, , , , , count]) => count),
        [0, 0, 0, 1, 2, 3, 0],
      )
    })
  }

  test('rules of other groups limit a request for which defaultRate answers null', async (t) => {
    const database = await openDatabase(t, provider)
    await database.client.rateLimitRule.create({
      data: { name: 'team', group: 'team', pathPattern: '^/', rate: '3/m', key: 'all' },
    })
    const { app, request } = await startApp(t, {
      database,
      plugin: { logEvents: true, useDynamicRules: true, headers: 'both', middleware: { defaultRate: rate } },
    })
    const { status, headers } = await request('/', KNOWN)
    assert.deepEqual([status, headers['x-ratelimit-remaining']], [200, '2'])
    assert.equal(headers['ratelimit-policy'], '"team";q=3;w=60')
    assert.match(String(headers.ratelimit), /^"team";r=2;t=\d+;fsr-limit=3;fsr-remaining=2;/)
    const explained = await app.smartRateLimit.explain({ path: '/', ip: ALICE, headers: KNOWN.headers })
    assert.equal(explained.decided_by, 'team')
    const ofDefault = explained.limits.find(({ policy }) => policy === 'default')
    assert.deepEqual([ofDefault?.applies, ofDefault?.count, ofDefault?.remaining], [true, null, null])
    assert.match(ofDefault?.why ?? '', /this request has no limit/)
    await request('/', KNOWN)
    await request('/', KNOWN)
    assert.equal((await request('/', KNOWN)).status, 429)
    await app.smartRateLimit.events.flush()
    const rows = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      rows.map(({ policy, client, outcome, count }) => [policy, client, outcome, count]),
      [1, 2, 3, 4].map((count) => ['team', `ip:${ALICE}`, count > 3 ? 'over_limit' : 'allowed', count]),
    )
  })
})

test('the ceiling limits a request for which defaultRate answers null', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { headers: 'both', middleware: { defaultRate: rate, ceiling: '3/m' } },
  })
  const { status, headers } = await request('/', KNOWN)
  assert.deepEqual([status, headers['x-ratelimit-remaining']], [200, '2'])
  assert.equal(headers['ratelimit-policy'], '"ceiling";q=3;w=60')
  await request('/', KNOWN)
  await request('/', KNOWN)
  for (const time of ['the first time', 'again']) {
    const refused = await request('/', KNOWN)
    assert.deepEqual([refused.status, refused.headers['x-ratelimit-limit']], [429, '3'], time)
  }
})

test('a limit of a route whose rate is null leaves the answer of the own check as it is', async (t) => {
  const { request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '9/m' } },
    routes(app) {
      app.post('/sign-in', { onRequest: app.smartRateLimit.limit({ rate, name: 'account' }) }, async () => 'ok')
      app.post('/config', { config: { smartRateLimit: { rate } } }, async () => 'ok')
    },
  })
  for (const [path, left] of [
    ['/sign-in', '8'],
    ['/config', '4'],
  ] as const) {
    const { status, headers } = await request(path, { ...KNOWN, method: 'POST' })
    assert.deepEqual([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [200, '9', left])
    assert.deepEqual(await statuses(3, path, { ...STRANGER, method: 'POST' }), [200, 200, 429])
  }
})

test('a limit of a route whose rate is null counts nothing where it is the only one, in code too', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { headers: 'both', middleware: { skipPaths: ['/'] } },
    routes(app) {
      const limit = app.smartRateLimit.limit({ rate, name: 'account' })
      app.get('/', { onRequest: limit }, async (request) => [
        app.smartRateLimit.decisionOf(request),
        await limit.check(request, { cost: 5 }),
        await limit.peek(request),
      ])
    },
  })
  for (let times = 0; times < 3; times++) {
    const { status, headers, text } = await request('/', KNOWN)
    assert.deepEqual([status, limitHeaders(headers)], [200, []])
    for (const decision of JSON.parse(text)) {
      assert.deepEqual([decision.policy, decision.allowed, decision.count, decision.limit], ['account', true, 0, 0])
      assert.ok(decision.remaining > 1_000_000)
    }
  }
})

test('undefined is a wrong rate: the request has the rate 100/m, and the log says so once', async (t) => {
  const { request, log } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: () => undefined as never } },
  })
  for (let times = 0; times < 2; times++) {
    assert.equal((await request('/')).headers['x-ratelimit-limit'], '100')
  }
  const errors = log.filter(({ level }) => level === ERROR)
  assert.equal(errors.length, 1)
  assert.match(errors[0]?.msg ?? '', /^Rate limit setting "middleware.defaultRate" failed: .*"undefined"/)
})
