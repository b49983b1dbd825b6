import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { InvalidSettingError, RuleValidationError } from '../../../src/ground/errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../src/ground/time/clock.js'
import { CooperativeYield, type Steps } from '../../../src/ground/time/cooperative-yield.js'
import type { RuleCandidate } from '../../../src/index.js'
import { RATE_ALGORITHMS, type RateAlgorithm } from '../../../src/limiter/algorithm.js'
import { parseRate } from '../../../src/limiter/rate.js'
import { newEntry } from '../../../src/limiter/stores/memory/memory-entry.js'
import { eventValues, insertEventsSql } from '../../../src/log/event.js'
import { createDecides } from '../../../src/reports/preview/decides.js'
import { readOverrides } from '../../../src/reports/preview/overrides.js'
import { parseCandidate } from '../../../src/reports/preview/preview.js'
import { Replay } from '../../../src/reports/preview/replay.js'
import { createReference } from '../../conformance/traces.js'
import { openDatabase, startApp, type TestApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../../support/databases.js'
import { EVENT } from '../../support/events.js'
import { long } from '../../support/long.js'
import { fc } from '../../support/properties.js'

const NOW_MS = fakeClock().now()

interface Recorded {
  readonly atMs: number
  readonly key?: string
  readonly ruleName?: string
  readonly path?: string
  readonly method?: string
  readonly allowed?: boolean
  readonly count?: number
  readonly limit?: number
  readonly userId?: number | null
  readonly clientIp?: string | null
  readonly client?: string
}

/** Puts requests into the log that were served for `clientIp` and let through, unless said otherwise. */
async function record(database: TestDatabase, recorded: readonly Recorded[]): Promise<void> {
  const rows = recorded.map(({ atMs, clientIp = '192.0.2.1', allowed = true, ...given }) =>
    eventValues({
      ...EVENT,
      timestampMs: atMs,
      key: `ip:${clientIp}`,
      path: '/api/x',
      limit: 100,
      clientIp,
      client: '',
      policy: '',
      allowed,
      outcome: allowed ? 'allowed' : 'over_limit',
      ...given,
    }),
  )
  await database.database.execute(insertEventsSql(database.database.dialect), [JSON.stringify(rows)])
}

async function start(t: TestContext, provider: Provider, plugin = {}, fastify = {}) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const app = await startApp(t, {
    database,
    clock,
    fastify,
    plugin: { logEvents: true, useDynamicRules: true, ...plugin },
  })
  const preview = app.app.smartRateLimit.rules.preview
  return { ...app, database, preview }
}

const RULE = { name: 'api', pathPattern: '^/api/', rate: '3/m' } satisfies RuleCandidate

function* inOneStep<Result>(result: Result): Steps<Result> {
  if (result === undefined) yield
  return result
}

/** Requests of three clients, with bursts and pauses. Answers how many were refused. */
async function burstsAndPauses({ clock, statuses }: TestApp): Promise<number> {
  const codes: number[] = []
  for (const seconds of [0, 0, 1, 9, 20, 20, 40, 1, 1, 130, 5, 5]) {
    clock.advance(seconds * SECOND_MS + 7)
    codes.push(...(await statuses(2, '/api/a?q=1', { from: '192.0.2.1' })))
    codes.push(...(await statuses(1, '/%61pi/b', { from: '192.0.2.2', method: 'HEAD' })))
    await statuses(1, '/other', { from: '192.0.2.1' })
  }
  return codes.filter((code) => code === 429).length
}

forEachDatabase((provider) => {
  describe('a preview', () => {
    const rules = [
      ...RATE_ALGORITHMS.map((algorithm) => ({ algorithm, rate: '3/m' })),
      ...RATE_ALGORITHMS.map((algorithm) => ({ algorithm, rate: '2/10s, 3/m, 9/h' })),
      { algorithm: 'fixed_window', rate: '9/month' },
    ] as const
    for (const { algorithm, rate } of rules) {
      test(`of the rule that was in force finds the refusals that happened: ${algorithm}, ${rate}`, async (t) => {
        const app = await start(t, provider)
        const rule = { ...RULE, algorithm, rate }
        await app.database.client.rateLimitRule.create({ data: rule })
        const refused = await burstsAndPauses(app)
        assert.ok(refused > 3)
        const result = await app.preview(rule)
        assert.deepEqual(
          [result.events, result.matched, result.would_refuse, result.refused_then],
          [48, 36, refused, refused],
        )
        assert.deepEqual([result.newly_refused, result.newly_allowed, result.uncovered.count], [0, 0, 0])
        assert.equal(
          result.top_keys.reduce((sum, { would_refuse }) => sum + would_refuse, 0),
          refused,
        )
        for (const { key, would_refuse, refused_then } of result.top_keys) {
          assert.match(key, /^rule:api:192\.0\.2\.[12]$/)
          assert.equal(would_refuse, refused_then)
        }
      })
    }

    test('of another rate shows the difference', async (t) => {
      const app = await start(t, provider)
      await app.database.client.rateLimitRule.create({ data: RULE })
      await app.statuses(5, '/api/a', { from: '192.0.2.1' })
      app.clock.advance(MINUTE_MS)
      await app.statuses(2, '/api/a', { from: '192.0.2.1' })
      await app.statuses(1, '/api/a', { from: '192.0.2.2' })
      const stricter = await app.preview({ ...RULE, rate: '1/m' })
      assert.deepEqual(
        [
          stricter.matched,
          stricter.refused_then,
          stricter.would_refuse,
          stricter.newly_refused,
          stricter.newly_allowed,
        ],
        [8, 2, 5, 3, 0],
      )
      assert.deepEqual(stricter.top_keys, [
        { key: 'rule:api:192.0.2.1', matched: 7, over_limit: 5, would_refuse: 5, refused_then: 2 },
        { key: 'rule:api:192.0.2.2', matched: 1, over_limit: 0, would_refuse: 0, refused_then: 0 },
      ])
      const laxer = await app.preview({ ...RULE, rate: '4/m' })
      assert.deepEqual([laxer.would_refuse, laxer.newly_refused, laxer.newly_allowed], [1, 0, 1])
    })

    test('tells how many clients the rule would have banned, as servers do, and replays no ban', async (t) => {
      const app = await start(t, provider)
      const { rateLimitRule, rateLimitOverride } = app.database.client
      const rule = { ...RULE, rate: '1/m, 50/h', banAfter: 4, banFor: '1h' }
      await rateLimitRule.create({ data: RULE })
      for (const [from, times] of [
        ['192.0.2.1', 3],
        ['192.0.2.2', 3],
        ['192.0.2.3', 2],
      ] as const) {
        await app.statuses(times, '/api/a', { from })
      }
      app.clock.advance(MINUTE_MS)
      for (const from of ['192.0.2.1', '192.0.2.3']) await app.statuses(3, '/api/a', { from })
      const { notes, would_refuse } = await app.preview(rule)
      assert.equal(would_refuse, 9)
      const told = '1 client would have been banned: the requests that a ban denies are replayed as if there was none.'
      assert.deepEqual(notes, [told])
      assert.deepEqual((await app.preview({ ...rule, block: false })).notes.includes(told), false)
      assert.deepEqual((await app.preview({ ...rule, banAfter: 5 })).notes, [])
      assert.equal(await rateLimitOverride.count(), 0)
    })

    test('uses as much of the limit as the rule says, as servers do', async (t) => {
      const app = await start(t, provider)
      const rule = { ...RULE, rate: '30/m', cost: 10 }
      await app.database.client.rateLimitRule.create({ data: rule })
      const refused = await burstsAndPauses(app)
      const result = await app.preview(rule)
      assert.deepEqual([result.matched, result.would_refuse, result.refused_then], [36, refused, refused])
      assert.ok((await app.preview({ ...rule, cost: 11 })).would_refuse > refused)
    })

    test('decides the requests of its time, and leaves to other rules those of theirs', async (t) => {
      const { database, preview } = await start(t, provider)
      const requests = Array.from({ length: 60 }, (_, minute) => ({ atMs: NOW_MS - minute * MINUTE_MS }))
      await record(database, requests)
      const [quarter, half] = [new Date(NOW_MS - 15 * MINUTE_MS), new Date(NOW_MS - 30 * MINUTE_MS)]
      const matched = async (candidate: Partial<RuleCandidate>) => (await preview({ ...RULE, ...candidate })).matched
      assert.equal(await matched({ startsAt: half }), 31)
      assert.equal(await matched({ startsAt: half, endsAt: quarter }), 15)
      assert.equal(await matched({ startsAt: new Date(NOW_MS + 1).toISOString() }), 0)
      const { notes } = await preview({ ...RULE, startsAt: half, endsAt: quarter })
      assert.deepEqual(notes, [
        `The rule is in force from ${half.toISOString()} until ${quarter.toISOString()}: requests at other times are left out.`,
      ])
      await database.client.rateLimitRule.create({ data: { ...RULE, name: 'sale', priority: 1, startsAt: quarter } })
      assert.equal(await matched({}), 60 - 16)
    })

    test('of a rule that does not block refuses no request, and counts those over its limit', async (t) => {
      const app = await start(t, provider)
      await record(
        app.database,
        Array.from({ length: 5 }, () => ({ atMs: NOW_MS - HOUR_MS })),
      )
      const result = await app.preview({ ...RULE, block: false })
      assert.deepEqual([result.over_limit, result.would_refuse, result.newly_refused], [2, 0, 0])
      assert.ok(result.notes.some((note) => note.includes('block: false')))
    })

    test('warms up with what was just before the window, and counts from its beginning on', async (t) => {
      const app = await start(t, provider)
      app.clock.advance(30 * SECOND_MS)
      const sinceMs = app.clock.now() - HOUR_MS
      const before = Array.from({ length: 3 }, () => ({ atMs: sinceMs - 20 * SECOND_MS }))
      await record(app.database, [{ atMs: sinceMs - DAY_MS }, ...before, { atMs: sinceMs }, { atMs: sinceMs + 1 }])
      for (const algorithm of RATE_ALGORITHMS) {
        const result = await app.preview({ ...RULE, algorithm }, { hours: 1 })
        // A third of the bucket is back after 20 seconds.
        const expected = algorithm.endsWith('_bucket') ? 1 : 2
        assert.deepEqual([result.events, result.would_refuse], [2, expected], algorithm)
        assert.equal(result.first_event, new Date(sinceMs).toISOString())
        assert.deepEqual([result.complete, result.gaps], [true, []])
      }
    })

    test('lists the hours by the clock in UTC, those without requests too', async (t) => {
      const app = await start(t, provider)
      app.clock.advance(10 * MINUTE_MS)
      await record(app.database, [
        { atMs: NOW_MS - HOUR_MS - 1 },
        { atMs: NOW_MS - HOUR_MS, allowed: false },
        { atMs: NOW_MS },
      ])
      const { by_hour } = await app.preview({ ...RULE, rate: '0/m' }, { hours: 2 })
      const count = (hour: string, matched: number, refused_then: number) => {
        return { hour, matched, over_limit: matched, would_refuse: matched, refused_then }
      }
      assert.deepEqual(by_hour, [
        count('2026-01-15T10:00:00.000Z', 1, 0),
        count('2026-01-15T11:00:00.000Z', 1, 1),
        count('2026-01-15T12:00:00.000Z', 1, 0),
      ])
    })

    test('of an empty log says that there is nothing to go by', async (t) => {
      const { preview } = await start(t, provider)
      const { by_hour, ...result } = await preview(RULE)
      assert.equal(by_hour.length, 25)
      assert.deepEqual(result, {
        rule: 'api',
        sentence: 'The log has no requests in this time.',
        hours: 24,
        since: '2026-01-14T12:00:00.000Z',
        until: '2026-01-15T12:00:00.000Z',
        events: 0,
        first_event: null,
        last_event: null,
        matched: 0,
        over_limit: 0,
        would_refuse: 0,
        over_limit_clients: 0,
        refused_then: 0,
        newly_refused: 0,
        newly_allowed: 0,
        uncovered: { count: 0, share: 0, reasons: {} },
        unknown: [],
        top_keys: [],
        complete: false,
        gaps: ['The log is empty.'],
        notes: [],
      })
    })

    test('reads more than one page, and events of one moment once', async (t) => {
      const app = await start(t, provider)
      await record(
        app.database,
        Array.from({ length: 3_500 }, (_, place) => ({ atMs: NOW_MS - HOUR_MS, clientIp: `192.0.2.${place % 7}` })),
      )
      const result = await app.preview({ ...RULE, rate: '100/m' })
      assert.deepEqual([result.events, result.would_refuse], [3_500, 2_800])
    })

    test('agrees with a naive replay of random histories', async (t) => {
      const app = await start(t, provider)
      const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
      t.diagnostic(`seed ${seed} (TEST_SEED)`)
      await fc.assert(
        fc.asyncProperty(histories, async ({ events, rate, algorithm, key }) => {
          await app.database.client.rateLimitEvent.deleteMany()
          await record(app.database, events)
          const result = await app.preview({ ...RULE, rate, algorithm, key }, { hours: 1 })
          const { matched, over_limit, newly_refused, newly_allowed } = result
          assert.deepEqual(
            { matched, over_limit, newly_refused, newly_allowed },
            naiveReplay(events, algorithm, rate, key === 'user'),
          )
          for (const total of ['matched', 'over_limit', 'refused_then'] as const) {
            assert.equal(
              result.by_hour.reduce((sum, hour) => sum + hour[total], 0),
              result[total],
            )
            assert.equal(
              result.top_keys.reduce((sum, its) => sum + its[total], 0),
              result[total],
            )
          }
        }),
        { seed, numRuns: provider === 'sqlite' ? 40 : 20, endOnFailure: true },
      )
    })
  })
})

const histories = fc.record({
  events: fc.array(
    fc.record({
      // From before the window too, as far back as the shortest warm-up.
      atMs: fc.integer({ min: NOW_MS - 2 * HOUR_MS, max: NOW_MS }).map((ms) => ms - (ms % (5 * SECOND_MS))),
      path: fc.constantFrom('/api/x', '/%61pi/y', '/other', '/x/api/'),
      clientIp: fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8:1:2::/64'),
      userId: fc.constantFrom(null, null, 7, 8),
      allowed: fc.boolean(),
    }),
    { maxLength: 200, size: 'max' },
  ),
  rate: fc.constantFrom('1/m', '3/5m', '10/20m', '0/m', '2/7s'),
  algorithm: fc.constantFrom(...RATE_ALGORITHMS),
  key: fc.constantFrom('ip', 'user'),
})

function naiveReplay(
  events: readonly (Recorded & { allowed: boolean })[],
  algorithm: RateAlgorithm,
  rate: string,
  byUser: boolean,
) {
  const check = createReference()
  const result = { matched: 0, over_limit: 0, newly_refused: 0, newly_allowed: 0 }
  const inOrder = events.map((event, id) => ({ ...event, id })).sort((a, b) => a.atMs - b.atMs || a.id - b.id)
  for (const { atMs, path, clientIp, userId, allowed } of inOrder) {
    if (path === '/other' || path === '/x/api/') continue
    const key = byUser && userId != null ? `user:${userId}` : String(clientIp)
    const decision = check({ key, policy: { algorithm, ...parseRate(rate) }, cost: 1 }, atMs)
    if (atMs < NOW_MS - HOUR_MS) continue
    result.matched++
    if (!decision.allowed) result.over_limit++
    if (!decision.allowed && allowed) result.newly_refused++
    if (decision.allowed && !allowed) result.newly_allowed++
  }
  return result
}

describe('a preview counts as matched', () => {
  const elevenAgo = { atMs: NOW_MS - 11 * MINUTE_MS }

  test('only requests for which the rule would be the first', async (t) => {
    const app = await start(t, 'sqlite')
    const { rateLimitRule } = app.database.client
    await rateLimitRule.create({ data: { name: 'high', pathPattern: '^/api/high', rate: '1/m', priority: 5 } })
    await rateLimitRule.create({ data: { name: 'aaa', pathPattern: '^/api/same', rate: '1/m' } })
    await rateLimitRule.create({ data: { name: 'zzz', pathPattern: '^/api/same', rate: '1/m' } })
    await rateLimitRule.create({ data: { name: 'off', pathPattern: '.', rate: '1/m', priority: 9, isActive: false } })
    await rateLimitRule.create({ data: { ...RULE, name: 'mid', rate: '1/m', priority: 7 } })
    await record(app.database, [
      { ...elevenAgo, path: '/api/high' },
      { ...elevenAgo, path: '/api/same' },
      { ...elevenAgo, path: '/api/other' },
      { ...elevenAgo, path: '/api/other', method: 'POST' },
      { ...elevenAgo, path: '/api/other', method: 'HEAD' },
      { ...elevenAgo, path: '/nothing' },
    ])
    // "mid" is the candidate itself, as it is now: it precedes no rule.
    const matched = async (candidate: Partial<RuleCandidate>) =>
      (await app.preview({ ...RULE, name: 'mid', ...candidate })).matched
    assert.equal(await matched({}), 3)
    assert.equal(await matched({ method: 'get' }), 2)
    assert.equal(await matched({ method: 'POST' }), 1)
    assert.equal(await matched({ priority: 5 }), 4)
    assert.equal(await matched({ priority: 6, isActive: false }), 5)
    await rateLimitRule.delete({ where: { name: 'mid' } })
    assert.equal(await matched({ name: 'a' }), 4)
  })

  test('no request that rules of a higher priority decide, and the notes name these', async (t) => {
    const app = await start(t, 'sqlite')
    const { rateLimitRule } = app.database.client
    await rateLimitRule.create({ data: { name: 'first', pathPattern: '^/api/', rate: '1/m', priority: 5 } })
    const condition = 'true'
    await rateLimitRule.create({ data: { name: 'one', pathPattern: '^/api/a', rate: '1/m', priority: 9, condition } })
    await record(app.database, [
      { ...elevenAgo, path: '/api/a' },
      { ...elevenAgo, path: '/api/b' },
      { ...elevenAgo, path: '/api/b' },
      { ...elevenAgo, path: '/other' },
    ])
    const { sentence, matched, notes } = await app.preview({ ...RULE, name: 'shadowed', pathPattern: '^/api/' })
    assert.equal(sentence, 'None of 4 requests matched.')
    assert.equal(matched, 0)
    assert.deepEqual(
      notes.filter((note) => note.includes('comes first')),
      [
        '2 requests that match are decided by rule "first", which comes first, and left out.',
        '1 request that matches is decided by rule "one", which comes first, and left out.',
      ],
    )
    const higher = await app.preview({ ...RULE, name: 'shadowed', pathPattern: '^/api/', priority: 7 })
    assert.equal(higher.matched, 2)
    assert.doesNotMatch(higher.notes.join('\n'), /"first"/)
    // Nobody knows whether this one would match them.
    const asking = { ...RULE, name: 'asking', pathPattern: '^/api/', condition: "request.host == 'a'" }
    assert.doesNotMatch((await app.preview(asking)).notes.join('\n'), /comes first/)
  })

  test('requests whose condition the log can decide; the others are uncovered', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [
      { ...elevenAgo, method: 'POST', clientIp: '10.0.0.1' },
      { ...elevenAgo, method: 'POST' },
      { ...elevenAgo, method: 'GET', clientIp: '10.0.0.1' },
      { ...elevenAgo, method: 'GET', client: 'user:7', userId: 7 },
      { ...elevenAgo, path: '/other' },
    ])
    const counted = async (condition: string, candidate: Partial<RuleCandidate> = {}) => {
      const { matched, uncovered } = await app.preview({ ...RULE, rate: '100/m', condition, ...candidate })
      return [matched, uncovered.count, uncovered.reasons.condition_not_logged ?? 0]
    }
    assert.deepEqual(await counted("request.method == 'POST' && request.path.startsWith('/api/')"), [2, 0, 0])
    assert.deepEqual(await counted("inNetwork(client.ip, '10.0.0.0/8')"), [2, 1, 1])
    for (const condition of [
      "request.headers['x-plan'] == 'gold'",
      "request.query.page == '1'",
      "request.host == 'x'",
      "request.route == 'x'",
      "user.plan == 'free'",
      'user == null',
      "'x-plan' in request.headers",
      'size(request.query) == 0',
    ]) {
      assert.deepEqual(await counted(condition), [0, 4, 4], condition)
      // Where the rest decides, nothing is unknown.
      assert.deepEqual(await counted(`request.method == 'POST' && (${condition})`), [0, 2, 2], condition)
      assert.deepEqual(await counted(`(${condition}) || request.method == 'POST'`), [2, 2, 2], condition)
      assert.deepEqual(
        await counted(`(${condition}) && 1 / int(request.path) == 1`, { name: 'x' }),
        [0, 4, 4],
        condition,
      )
    }
    const { notes, uncovered } = await app.preview({ ...RULE, condition: "user.plan == 'free'" })
    assert.equal(uncovered.share, 1)
    assert.match(notes.join(), /Not replayed: 4 requests under a condition that reads what is not known of them/)
  })

  test('and begins with what it cannot say, by rule and field', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [
      elevenAgo,
      elevenAgo,
      { ...elevenAgo, method: 'POST' },
      { ...elevenAgo, path: '/else' },
    ])
    const found = async (candidate: Partial<RuleCandidate>) => {
      const { sentence, unknown } = await app.preview({ ...RULE, rate: '100/m', ...candidate })
      return [sentence, ...unknown.map(({ rule, field, lacks, requests }) => `${rule} ${field} ${lacks} ${requests}`)]
    }
    const lead = (count: number, rule: string, field: string) =>
      `Nothing can be said about ${count} of 4 requests: rule "${rule}" reads ${field}, which the log does not have.`
    for (const [condition, field] of [
      ["request.headers['x-plan'] == 'gold'", "request.headers['x-plan']"],
      ["request.query.page == '1'", "request.query['page']"],
      ["'x-plan' in request.headers", "request.headers['x-plan']"],
      ['size(request.query) == 0', 'request.query'],
      ["request.host == 'x'", 'request.host'],
      ["request.route == 'x'", 'request.route'],
      ["user.plan == 'free' || user.plan == 'trial'", 'user.plan'],
      ['has(user.plan)', 'user.plan'],
      ['user == null', 'user'],
    ] as const) {
      assert.deepEqual(await found({ condition }), [
        `${lead(3, 'api', field)} The other request did not match.`,
        `api ${field} log 3`,
      ])
    }
    for (const [rule, field] of [
      [{ key: 'user.org' }, 'user.org'],
      [{ key: 'header:X-Key' }, 'header:x-key'],
      [{ key: 'ip+cookie:id' }, 'cookie:id'],
      [{ counts: '401' }, 'response.status'],
      [{ unit: 'tokens' }, 'charges in tokens'],
    ] as const) {
      assert.deepEqual(await found(rule), [
        `${lead(3, 'api', field)} The other request did not match.`,
        `api ${field} log 3`,
      ])
    }
    const condition = "request.method == 'POST' && user.org == 'a'"
    await app.database.client.rateLimitRule.create({
      data: { name: 'first', pathPattern: '^/', rate: '1/m', priority: 9, condition },
    })
    assert.deepEqual(await found({}), [
      `${lead(1, 'first', 'user.org')} 2 of the 3 other requests matched; none of these would have been refused.`,
      'first user.org log 1',
    ])
  })

  test('names at most 100 facts of a condition that reads another one of each request', async (t) => {
    const app = await start(t, 'sqlite')
    await record(
      app.database,
      Array.from({ length: 120 }, (_, index) => ({ ...elevenAgo, path: `/api/${index}` })),
    )
    const { unknown, uncovered } = await app.preview({ ...RULE, condition: "request.headers[request.path] == 'x'" })
    assert.deepEqual([unknown.length, uncovered.count], [100, 120])
  })

  test('requests that no rule of a higher priority takes, as far as its condition is known', async (t) => {
    const app = await start(t, 'sqlite')
    const { rateLimitRule } = app.database.client
    await record(app.database, [
      { ...elevenAgo, method: 'POST' },
      { ...elevenAgo, method: 'GET' },
    ])
    const high = { name: 'high', pathPattern: '^/api/', rate: '1/m', priority: 5 }
    await rateLimitRule.create({ data: { ...high, condition: "request.method == 'POST'" } })
    const counted = async () => {
      const { matched, uncovered } = await app.preview(RULE)
      return [matched, uncovered.count]
    }
    assert.deepEqual(await counted(), [1, 0])
    await rateLimitRule.updateMany({ data: { condition: "request.method == 'POST' && user.plan == 'free'" } })
    assert.deepEqual(await counted(), [1, 1])
    await rateLimitRule.create({ data: { ...high, name: 'next', priority: 4, condition: 'true' } })
    assert.deepEqual(await counted(), [0, 0])
    await rateLimitRule.updateMany({ data: { condition: 'int(request.path) == 1' } })
    assert.deepEqual(await counted(), [2, 0])
  })

  test('what the router sees, under its options', async (t) => {
    const spellings = ['/API/x', '//api/x', 'http://host/api/x', '/%61pi/x', '/x;/api/']
    const events = spellings.map((path) => ({ ...elevenAgo, path }))
    const strict = await start(t, 'sqlite')
    await record(strict.database, events)
    assert.equal((await strict.preview(RULE)).matched, 2)
    const lenient = await start(
      t,
      'sqlite',
      {},
      {
        routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true, useSemicolonDelimiter: true },
      },
    )
    await record(lenient.database, events)
    assert.equal((await lenient.preview({ ...RULE, pathPattern: '^/api/x$' })).matched, 4)
  })

  test('a method that was too long for the log', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [
      { ...elevenAgo, method: 'UNSUBSCRIB' },
      { ...elevenAgo, method: 'MKCALENDAR' },
    ])
    assert.equal((await app.preview({ ...RULE, method: 'UNSUBSCRIBE' })).matched, 1)
    assert.equal((await app.preview({ ...RULE, method: 'MKCALENDAR' })).matched, 1)
  })
})

describe('a preview leaves uncovered', () => {
  const atMs = NOW_MS - HOUR_MS

  async function uncovered(app: Awaited<ReturnType<typeof start>>, key: string, events: readonly Recorded[]) {
    await app.database.client.rateLimitEvent.deleteMany()
    await record(app.database, events)
    const result = await app.preview({ ...RULE, key, rate: '1/m' })
    assert.equal(
      result.uncovered.count,
      Object.values(result.uncovered.reasons).reduce((a, b) => a + b, 0),
    )
    return { result, reasons: result.uncovered.reasons }
  }

  test('all that a rule of another unit decides: the log has no charges', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [{ atMs }, { atMs }])
    const result = await app.preview({ ...RULE, rate: '1/m', unit: 'tokens' })
    assert.deepEqual(
      [result.matched, result.over_limit, result.uncovered],
      [2, 0, { count: 2, share: 1, reasons: { amount_not_logged: 2 } }],
    )
  })

  test('all that a rule decides which counts responses: the log has no statuses', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [{ atMs }, { atMs }])
    const result = await app.preview({ ...RULE, rate: '1/m', counts: '401' })
    assert.deepEqual(
      [result.matched, result.over_limit, result.uncovered],
      [2, 0, { count: 2, share: 1, reasons: { status_not_logged: 2 } }],
    )
    assert.ok(
      result.notes.includes(
        'Not replayed: 2 requests counted only with certain statuses of their responses, which are not in the log.',
      ),
    )
  })

  test('by address, what was counted by something else', async (t) => {
    const app = await start(t, 'sqlite')
    const { result, reasons } = await uncovered(app, 'ip', [
      { atMs },
      { atMs, key: 'rule:users:192.0.2.1', ruleName: 'users' },
      { atMs, key: 'ip:192.0.2.1', clientIp: null },
      { atMs, key: 'ip:unknown', clientIp: null },
      { atMs, key: 'rule:users:unknown', ruleName: 'users', clientIp: null },
      { atMs, key: 'rule:users:user:7', ruleName: 'users', clientIp: null, userId: 7 },
      { atMs, key: 'rule:gone:unknown', ruleName: 'gone', clientIp: null },
      { atMs, key: 'ip:not an address', clientIp: null },
      { atMs, key: 'tenant-5', clientIp: null },
    ])
    assert.deepEqual(reasons, { address_not_logged: 4 })
    assert.deepEqual([result.matched, result.over_limit, result.uncovered.share], [9, 2, 4 / 9])
    assert.deepEqual(
      result.top_keys.map(({ key, matched }) => [key, matched]),
      [
        ['rule:api:192.0.2.1', 3],
        ['rule:api:not an address', 1],
        ['rule:api:unknown', 1],
      ],
    )
  })

  test('by user, those whose user is unknown', async (t) => {
    const app = await start(t, 'sqlite')
    const anonymous = { atMs, clientIp: '192.0.2.9' }
    const integers = [
      anonymous,
      { ...anonymous, key: 'rule:users:192.0.2.9', ruleName: 'users' },
      { atMs, userId: 7 },
      { atMs, key: 'rule:gone:secret', ruleName: 'gone', clientIp: null, userId: 7 },
      { atMs, key: 'rule:gone:user:7', ruleName: 'gone', clientIp: null },
    ]
    const { result, reasons } = await uncovered(app, 'user', integers)
    assert.deepEqual(reasons, {})
    assert.deepEqual(
      result.top_keys.map(({ key, matched }) => [key, matched]),
      [
        ['rule:api:user:7', 3],
        ['rule:api:192.0.2.9', 2],
      ],
    )
    assert.ok(result.notes.some((note) => note.startsWith('2 requests without a user in the log are counted by')))

    // A user with such an id leaves no trace where addresses were counted: no client counts as anonymous any more.
    const textual = await uncovered(app, 'user', [
      ...integers,
      { atMs, key: 'user:b0b', clientIp: null },
      { atMs, key: `user:${'x'.repeat(250)}`, clientIp: null },
    ])
    assert.deepEqual(textual.reasons, { user_not_logged: 2, key_cut: 1 })
    assert.deepEqual(
      textual.result.top_keys.map(({ key, matched }) => [key, matched]),
      [
        ['rule:api:user:7', 3],
        ['rule:api:user:b0b', 1],
      ],
    )
  })

  test('by header, all but what was counted by the same header', async (t) => {
    const app = await start(t, 'sqlite')
    const keyed = (value: string) => ({ atMs, key: 'rule:keyed:x', ruleName: 'keyed', client: `header:x-key:${value}` })
    const { result, reasons } = await uncovered(app, 'header:X-Key', [
      keyed('secret'),
      { ...keyed('secret'), ruleName: 'gone' },
      keyed('user:7'),
      keyed('192.0.2.1'),
      keyed('x'.repeat(242)),
      { ...keyed(''), client: 'ip:192.0.2.1' },
      { ...keyed(''), client: 'header:x-other:secret' },
      { ...keyed(''), client: '', key: 'rule:keyed:secret' },
      { atMs },
    ])
    assert.deepEqual(reasons, { header_not_logged: 4, key_cut: 1 })
    assert.deepEqual(
      result.top_keys.map(({ key, matched }) => [key, matched]),
      [
        ['rule:api:secret', 2],
        ['rule:api:192.0.2.1', 1],
        ['rule:api:user:7', 1],
      ],
    )
    assert.equal(result.would_refuse, 1)
  })

  test('clients beyond the number that it keeps', long(), () => {
    const replay = new Replay({
      rule: parseCandidate({ ...RULE, rate: '1/d' }),
      newCounter: newEntry,
      requestPath: (path) => path,
      decides: () => inOneStep(true),
      override: () => inOneStep('none'),
      toClient: ({ id }) => ({ client: String(id) }),
      isRefusedByOthers: () => false,
      sinceMs: atMs,
      untilMs: NOW_MS,
    })
    const event = {
      path: '/',
      method: 'GET',
      allowed: true,
      outcome: 'allowed',
      client: '',
      key: '',
      userId: null,
      rules: '',
      weight: 1,
      isSum: false,
    } as const
    const add = (id: number) => replay.add({ ...event, id, timestampMs: atMs }).next()
    for (let id = 0; id < 250_002; id++) add(id)
    add(0)
    assert.deepEqual([...replay.uncovered], [['too_many_clients', 2]])
    assert.deepEqual([replay.total.matched, replay.total.overLimit], [250_003, 1])
  })

  test('paths on which rules would take too much work, since servers refuse these', async (t) => {
    const app = await start(t, 'sqlite')
    await app.statuses(2, `/api/${'a'.repeat(300)}`)
    await app.statuses(1, '/api/a')
    const letters = Array.from({ length: 10 }, (_, place) => `request.path.matches('[a-f]{280}x${place}')`).join(' || ')
    const { uncovered, matched } = await app.preview({ ...RULE, condition: `!(${letters})` })
    assert.deepEqual([uncovered.reasons, matched], [{}, 3], 'one of them alone is not too much')
    await app.database.client.rateLimitRule.createMany({
      data: Array.from({ length: 4 }, (_, place) => ({
        name: `first-${place}`,
        pathPattern: '^/',
        rate: '1/m',
        priority: 100,
        condition: letters,
      })),
    })
    const among = await app.preview({ ...RULE, condition: `!(${letters})` })
    assert.deepEqual([among.uncovered.reasons, among.matched], [{ too_long: 2 }, 1])
    assert.equal((await app.statuses(1, `/api/${'a'.repeat(300)}`))[0], 414)
  })

  test('what the deny list refused, and paths that were too long for the log', async (t) => {
    const app = await start(t, 'sqlite', { middleware: { denyList: ['192.0.2.66'] } })
    await app.statuses(3, '/api/a', { from: '192.0.2.66' })
    await app.statuses(1, `/api/${'a'.repeat(600)}`)
    await app.statuses(1, '/api/a')
    const result = await app.preview(RULE)
    assert.deepEqual(result.uncovered, { count: 4, share: 4 / 5, reasons: { deny_list: 3, path_cut: 1 } })
    assert.deepEqual([result.events, result.matched, result.refused_then, result.newly_allowed], [5, 4, 3, 0])
  })
})

forEachDatabase((provider) => {
  describe('a preview leaves to overrides in force now', () => {
    const atMs = NOW_MS - HOUR_MS
    const clientIps = ['192.0.2.1', '192.0.2.1', '192.0.2.66', '198.51.100.7', '2001:db8:1:2::/64', '2001:db8:9:9::/64']

    test('the requests of clients that are refused, let through or held to another rate', async (t) => {
      const app = await start(t, provider)
      const { rateLimitOverride } = app.database.client
      const override = (client: string, effect: string, more = {}) =>
        rateLimitOverride.create({ data: { client, effect, ...more } })
      await override('ip:192.0.2.66', 'deny')
      await override('ip:198.51.100.0/24', 'allow')
      await override('ip:2001:db8:9::/48', '5/m')
      await override('user:7', '5/m')
      await override('ip:192.0.2.1', 'deny', { pathPattern: '^/other/' })
      await override('ip:192.0.2.0/24', 'deny', { expiresAt: new Date(NOW_MS + 1) })
      app.clock.advance(1)
      const at = { atMs }
      await record(app.database, [
        ...clientIps.map((clientIp) => ({ ...at, clientIp, userId: 8 })),
        { ...at, userId: 7 },
        { ...at, key: 'user:7', clientIp: null },
        { ...at, clientIp: '192.0.2.66', path: '/else' },
      ])
      const result = await app.preview({ ...RULE, rate: '1/m' })
      assert.deepEqual([result.events, result.matched, result.would_refuse, result.uncovered.count], [9, 3, 1, 0])
      assert.deepEqual(result.notes, [
        '5 requests are decided by overrides that are in force now, and left out. To try a rule on the requests of a client, preview it before the client is blocked, or end the block first.',
      ])
    })

    test('not what only a part of a network has, nor what is not known to be theirs, and says so', async (t) => {
      const app = await start(t, provider)
      const { rateLimitOverride } = app.database.client
      await rateLimitOverride.create({ data: { client: 'ip:2001:db8:1:2::7', effect: 'deny' } })
      await rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
      await record(app.database, [
        ...clientIps.map((clientIp) => ({ atMs, clientIp, userId: 8 })),
        { atMs, clientIp: '192.0.2.1' },
        { atMs, clientIp: 'not:an:address', userId: 8 },
      ])
      const result = await app.preview(RULE)
      assert.deepEqual([result.matched, result.uncovered.reasons], [8, { override_unclear: 1 }])
      assert.deepEqual(
        result.notes.map((note) => note.match(/\d+ request(?= )/)?.[0]),
        ['1 request', '1 request'],
      )
      assert.match(result.notes[0] ?? '', /without an address or a user in the log/)
    })

    test('as servers do', async (t) => {
      const app = await start(t, provider)
      await app.database.client.rateLimitRule.create({ data: RULE })
      await app.database.client.rateLimitOverride.create({ data: { client: 'ip:192.0.2.66', effect: 'deny' } })
      await app.database.client.rateLimitOverride.create({ data: { client: 'ip:192.0.2.67', effect: '1/m' } })
      for (const from of ['192.0.2.1', '192.0.2.66', '192.0.2.67']) await app.statuses(5, '/api/a', { from })
      const { matched, would_refuse, refused_then, uncovered } = await app.preview(RULE)
      assert.deepEqual([matched, would_refuse, refused_then, uncovered.count], [5, 2, 2, 0])
    })
  })
})

describe('a preview says that the log is not complete', () => {
  test('when it begins after the window, or too late to warm up', async (t) => {
    const app = await start(t, 'sqlite')
    await record(app.database, [{ atMs: NOW_MS - HOUR_MS }])
    const [gap] = (await app.preview(RULE)).gaps
    assert.match(gap ?? '', /^The log begins 2026-01-15T11:00:00\.000Z, after the window does/)
    assert.equal((await app.preview(RULE, { hours: 1 })).complete, true)
    const [tooLate] = (await app.preview({ ...RULE, rate: '3/d' }, { hours: 1 })).gaps
    assert.match(tooLate ?? '', /too late to warm up the counters from 2026-01-15T00:00:00\.000Z on/)
  })

  test('when nothing but refusals is logged', async (t) => {
    const app = await start(t, 'sqlite', { logEvents: 'blocked', middleware: { defaultRate: '1/m' } })
    await app.statuses(3, '/api/a')
    const { gaps, events } = await app.preview(RULE)
    assert.equal(events, 2)
    assert.ok(gaps.includes("logEvents is 'blocked': requests within their limit are not in the log."))
    assert.ok(gaps.some((gap) => gap.startsWith('Every request in the log was refused, or would have been')))
  })

  test('when this process logs nothing, lost events, or obeys no rules', async (t) => {
    const off = await start(t, 'sqlite', { logEvents: false, useDynamicRules: false })
    const { gaps, notes } = await off.preview(RULE)
    assert.deepEqual(gaps, ['The log is empty.', 'logEvents is false: this process logs no requests.'])
    assert.deepEqual(notes, ['useDynamicRules is false: this app applies no rules.'])

    const lossy = await start(t, 'sqlite')
    await lossy.database.database.execute(
      "CREATE TRIGGER refused BEFORE INSERT ON rate_limit_event BEGIN SELECT RAISE(ABORT, 'it is refused'); END",
    )
    await lossy.statuses(2, '/')
    await lossy.app.smartRateLimit.events.flush()
    await lossy.database.database.execute('DROP TRIGGER refused')
    assert.ok((await lossy.preview(RULE)).gaps.includes('This process lost 2 events since it started.'))
  })
})

forEachDatabase((provider) => {
  test('a preview says that the log is not complete when overrides that let clients through have ended', async (t) => {
    const app = await start(t, provider)
    const { client, database } = app.database
    const { rateLimitOverride: overrides } = client
    const changes = database.dialect.table('rate_limit_change')
    const changedAt = (ms: number) =>
      database.execute(
        `UPDATE ${changes} SET changed_at = ${database.dialect.fromMs(String(ms))} WHERE id = (SELECT MAX(id) FROM ${changes})`,
      )
    const allow = (name: string, more = {}) => overrides.create({ data: { client: name, effect: 'allow', ...more } })
    const ended = async () => {
      const { complete, gaps } = await app.preview(RULE)
      assert.equal(complete, gaps.length === 0)
      return gaps.join()
    }
    await record(app.database, [{ atMs: NOW_MS - 2 * DAY_MS }, { atMs: NOW_MS }])

    await allow('user:1')
    await overrides.update({
      where: { client_pathPattern: { client: 'user:1', pathPattern: '' } },
      data: { note: 'still in force' },
    })
    await changedAt(NOW_MS - HOUR_MS)
    await allow('user:2')
    await overrides.deleteMany({ where: { client: 'user:2' } })
    await changedAt(NOW_MS - 25 * HOUR_MS)
    assert.equal(await ended(), '')

    await allow('user:3')
    await overrides.deleteMany({ where: { client: 'user:3' } })
    await changedAt(NOW_MS - 23 * HOUR_MS)
    assert.match(await ended(), /^1 override that let clients through ended since 2026-01-14T12:00:00\.000Z: /)
    await overrides.create({ data: { client: 'user:3', effect: 'deny' } })
    assert.equal(await ended(), '')

    await allow('ip:192.0.2.0/24', { expiresAt: new Date(NOW_MS + HOUR_MS) })
    assert.equal(await ended(), '')
    app.clock.advance(2 * HOUR_MS)
    assert.match(await ended(), /^1 override/)
    app.clock.advance(DAY_MS)
    assert.equal(await ended(), '')
  })
})

describe('a preview notes', () => {
  test('that routes have costs, which the log has not', async (t) => {
    const { app } = await startApp(t, {
      database: 'sqlite',
      plugin: { logEvents: true, useDynamicRules: true },
      routes: (scope) => {
        scope.get('/dear', { config: { smartRateLimit: { cost: 5 } }, exposeHeadRoute: false }, async () => 'ok')
        scope.get('/free', { config: { smartRateLimit: false } }, async () => 'ok')
      },
    })
    const { notes } = await app.smartRateLimit.rules.preview(RULE)
    assert.equal(notes.length, 1)
    assert.match(notes[0] ?? '', /^1 route has a cost/)
  })
})

describe('a preview refuses', () => {
  test('a wrong rule, with a message for every wrong field', async (t) => {
    const { preview } = await start(t, 'sqlite')
    const wrong = { name: 'a:b', rate: '5', key: 'cookie', priority: 1.5, priorty: 3, block: 'no', isActive: 1 }
    await assert.rejects(preview(wrong as unknown as RuleCandidate), (error) => {
      assert.ok(error instanceof RuleValidationError)
      const fields = ['block', 'isActive', 'key', 'name', 'pathPattern', 'priority', 'priorty', 'rate']
      assert.deepEqual(Object.keys(error.errors).sort(), fields)
      return true
    })
    for (const none of [null, undefined, 'rule', []]) {
      await assert.rejects(preview(none as unknown as RuleCandidate), RuleValidationError)
    }
  })

  test('other hours than 1 to 720', async (t) => {
    const { preview } = await start(t, 'sqlite')
    for (const hours of [0, -1, 721, Number.NaN, Number.POSITIVE_INFINITY, '24' as unknown as number]) {
      await assert.rejects(preview(RULE, { hours }), (error) => {
        assert.ok(error instanceof InvalidSettingError)
        assert.match(error.message, /^Option "hours" is .*: give a number of hours, 1 to 720$/)
        return true
      })
    }
    assert.equal((await preview(RULE, { hours: 720 })).by_hour.length, 721)
  })

  test('nothing in a row of the table', async (t) => {
    const { preview, database } = await start(t, 'sqlite')
    const row = await database.client.rateLimitRule.create({ data: RULE })
    assert.equal((await preview({ ...row, rate: '5/m' })).rule, 'api')
  })
})

test('a preview of a long log reports its progress', async (t) => {
  const { database, preview } = await start(t, 'sqlite')
  await record(
    database,
    Array.from({ length: 2_500 }, (_, place) => ({ atMs: NOW_MS - MINUTE_MS - place })),
  )
  const progress: number[] = []
  const { events } = await preview(RULE, { onProgress: (read) => progress.push(read) })

  assert.equal(events, 2_500)
  assert.deepEqual(progress, [1_000, 2_000, 2_500])
})

describe('a preview lets requests through meanwhile', () => {
  const router = { caseSensitive: true, ignoreTrailingSlash: false }
  const logged = {
    id: 1,
    timestampMs: NOW_MS,
    path: '/api/x',
    method: 'GET',
    allowed: true,
    outcome: 'allowed',
    userId: null,
    key: '',
    rules: '',
    weight: 1,
    isSum: false,
  } as const

  test('a step for each rule that may decide before the candidate', async () => {
    const rivals = Array.from({ length: 200 }, (_, index) =>
      parseCandidate({
        ...RULE,
        name: `rival-${index}`,
        priority: 1,
        condition: `request.headers['x-plan'] == 'plan-${index}'`,
      }),
    )
    const decides = await createDecides(router, parseCandidate(RULE), rivals)
    const work = decides({ ...logged, client: 'ip:192.0.2.1' }, '/api/x', 'GET')
    let steps = 0
    let next = work.next()
    for (; !next.done; next = work.next()) steps++
    const field = "request.headers['x-plan']"
    assert.deepEqual([steps, next.value], [200, { rule: 'rival-0', field, lacks: 'log' }])
  })

  test('it can pause at each override', async (t) => {
    const { client, database } = await openDatabase(t, 'sqlite')
    const count = 200
    await client.rateLimitOverride.createMany({
      data: Array.from({ length: count }, (_, index) => ({ client: `ip:198.51.100.${index}`, effect: 'deny' })),
    })
    // Each look at the clock finds more than a slice.
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => (nowMs += 10))
    const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
    const overrides = await readOverrides(database, router, {
      nowMs: NOW_MS,
      ratesDecide: true,
    })
    assert.ok(mock.callCount() >= 2 * count, `other work could run ${mock.callCount()} times`)
    const work = overrides.verdict({ ...logged, client: 'ip:198.51.100.0/24' }, '/api/x')
    let steps = 0
    let next = work.next()
    for (; !next.done; next = work.next()) steps++
    assert.deepEqual([steps, next.value], [count, 'unclear'])
  })
})
