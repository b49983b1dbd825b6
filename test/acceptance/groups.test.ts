/** A request has to pass a rule of each group; what it costs where another limit refuses it, and what it is told. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RefusalError, RequestDecision } from '../../src/index.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { eventually } from '../support/eventually.js'
import { startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const TEAM = { name: 'team', group: 'team', key: 'all' }

function giveBack(name: string, open?: () => Promise<TestStore>): void {
  for (const algorithm of RATE_ALGORITHMS) {
    const wide = algorithm === 'fixed_window' ? '50/m, 60/h, 80/month' : '50/m, 60/h'
    test(
      `a request that one limit refuses costs the others nothing: ${algorithm}, counted in ${name}`,
      long(),
      async (t) => {
        const rules = [
          { name: 'user', rate: '2/m', algorithm },
          { ...TEAM, rate: wide, algorithm },
          { name: 'app', group: 'app', key: 'all', rate: '60/h', algorithm },
        ]
        const { by, counts } = await startGroupApp(t, rules, { open })
        const statuses = []
        for (let request = 1; request <= 4; request++) statuses.push(await by('alice'))
        assert.deepEqual(statuses, [200, 200, 429, 429])
        assert.deepEqual(await counts(), { user: 0, team: 2, app: 2 })
        assert.equal(await by('bob'), 200)
        assert.deepEqual(await counts(), { user: 0, team: 3, app: 3 })
      },
    )
  }
}

/** A limit refuses while others hold what they will give back: that costs it nothing once they have. */
function burst(name: string, open?: () => Promise<TestStore>): void {
  for (const algorithm of RATE_ALGORITHMS) {
    test(
      `a burst that the limit of its user refuses leaves everybody else the rest: ${algorithm}, counted in ${name}`,
      long(),
      async (t) => {
        const rules = [
          { name: 'user', rate: '1/h', algorithm },
          { ...TEAM, rate: '10/h', algorithm },
        ]
        const { admitted, counts, by, clock } = await startGroupApp(t, rules, { open })
        assert.equal(await admitted(Array.from({ length: 30 }, () => 'alice')), 1)
        await eventually('what was held is given back', async () => {
          // A refusal is remembered for a moment.
          clock.advance(1_000)
          return (await counts()).team === 1
        })
        const others = Array.from({ length: 9 }, (_, place) => `user-${place}`)
        const statuses = []
        for (const user of others) statuses.push(await by(user))
        assert.deepEqual(new Set(statuses), new Set([200]))
        assert.equal(await by('one-more'), 429)
      },
    )
  }
}

describe('in memory', () => burst('memory'))
forEachStore(burst)
onRedisCluster(burst)

describe('in memory', () => giveBack('memory'))
forEachStore(giveBack)
onRedisCluster(giveBack)

describe('several limits', () => {
  test('two rules with one key and one rate in two groups have two counters', async (t) => {
    const { by, counts } = await startGroupApp(t, [
      { name: 'one', rate: '2/m' },
      { name: 'two', group: 'two', rate: '2/m' },
    ])
    assert.deepEqual([await by('alice'), await by('alice'), await by('alice')], [200, 200, 429])
    const limits = await counts('alice')
    assert.deepEqual(Object.keys(limits), ['one', 'two'])
  })

  test('of each group the first rule that matches applies, by priority, name, path, method and condition', async (t) => {
    const { by, counts } = await startGroupApp(t, [
      { name: 'premium', group: 'plan', rate: '9/m', priority: 2, condition: "request.headers['x-user'] == 'paul'" },
      { name: 'free', group: 'plan', rate: '1/m', priority: 1 },
      { name: 'never', group: 'plan', rate: '0/m' },
      { name: 'uploads', group: 'upload', rate: '0/m', pathPattern: '^/upload' },
    ])
    assert.deepEqual([await by('paul'), await by('paul'), await by('free'), await by('free')], [200, 200, 200, 429])
    assert.equal(await by('paul', '/upload'), 429)
    assert.deepEqual(await counts('paul'), { default: 3, premium: 2 })
    assert.deepEqual(await counts('free'), { default: 3, free: 1 })
  })

  test('a rule that moves to another group keeps its count, and with another name it starts anew', async (t) => {
    const { app, by, counts } = await startGroupApp(t, [{ name: 'all', group: 'all', key: 'all', rate: '3/m' }])
    const { rateLimitRule } = app.smartRateLimit.client
    const change = (name: string, data: { name?: string; group?: string }) =>
      rateLimitRule.update({ where: { name }, data })
    assert.deepEqual([await by('alice'), await by('bob')], [200, 200])
    await change('all', { group: 'everybody' })
    assert.equal((await counts()).all, 2)
    await change('all', { group: '' })
    assert.deepEqual(await counts(), { all: 2 })
    assert.deepEqual([await by('alice'), await by('bob')], [200, 429])
    await change('all', { name: 'renamed', group: 'all' })
    assert.equal(await by('alice'), 200)
    assert.equal((await counts()).renamed, 1)
  })

  test('headers, error and event tell of the longest wait, and the event of whom the rule without a group counts', async (t) => {
    const rules = [
      { name: 'user', rate: '2/m' },
      { ...TEAM, rate: '3/h' },
      { name: 'burst', group: 'burst', rate: '2/s, 9/d' },
    ]
    const plugin = { headers: 'both', logEvents: true } as const
    const { app, request, database } = await startGroupApp(t, rules, { plugin })
    const alice = { headers: { 'x-user': 'alice' } }
    const first = await request('/', alice)
    assert.deepEqual([first.headers['x-ratelimit-limit'], first.headers['x-ratelimit-remaining']], ['2', '1'])
    assert.equal(
      first.headers['ratelimit-policy'],
      '"user";q=2;w=60, "burst:s";q=2;w=1, "burst:d";q=9;w=86400, "team";q=3;w=3600',
    )
    assert.match(
      String(first.headers.ratelimit),
      /^"user";r=1;t=60, "burst:s";r=1;t=1, "burst:d";r=8;t=\d+, "team";r=2;t=3600;fsr-limit=2/,
    )
    await request('/', alice)
    const refused = await request('/', { headers: { ...alice.headers, accept: 'application/problem+json' } })
    assert.deepEqual(
      [refused.status, refused.headers['x-ratelimit-limit'], refused.headers['retry-after']],
      [429, '2', '60'],
    )
    assert.match(
      String(refused.headers.ratelimit),
      /^"user";r=0;t=60, "burst:s";r=0;t=1, "burst:d";r=6;t=\d+, "team";r=1;t=3600/,
    )
    assert.deepEqual(JSON.parse(refused.text)['violated-policies'], ['user', 'burst:s'])
    await request('/', { headers: { 'x-user': 'bob' } })
    const byTeam = await request('/', alice)
    assert.deepEqual([byTeam.status, byTeam.headers['retry-after']], [429, '3600'])
    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ ruleName, key, client, policy, allowed, count, limit, rules }) => [
        [ruleName, key, client, policy].join(' '),
        [allowed, count, limit].join(' '),
        rules,
      ]),
      [
        ['user rule:user:user:alice user:alice user', 'true 1 2', '+user:+burst:+team'],
        ['user rule:user:user:alice user:alice user', 'true 2 2', '+user:+burst:+team'],
        ['user rule:user:user:alice user:alice user', 'false 3 2', '-user:-burst:+team'],
        ['team rule:team:all user:bob team', 'true 3 3', '+user:+burst:+team'],
        ['team rule:team:all user:alice team', 'false 4 3', '-user:-burst:-team'],
      ],
    )
  })

  test('the decision has all limits, and one is an array of one', async (t) => {
    const rules = [{ ...TEAM, rate: '1/m', pathPattern: '^/team' }]
    const { request } = await startGroupApp(t, rules, {
      routes(app) {
        app.get('/*', async (request) => app.smartRateLimit.decisionOf(request))
        app.setErrorHandler((error: RefusalError, _request, reply) => reply.code(429).send(error.decision))
      },
    })
    const decisionOn = async (path: string): Promise<RequestDecision> => JSON.parse((await request(path)).text)
    const shown = ({ limits }: RequestDecision) =>
      limits.map(({ policy, rule, client, key, decision }) => [policy, rule, client, key, decision?.count])
    assert.deepEqual(shown(await decisionOn('/other')), [['default', null, 'ip:127.0.0.1', 'ip:127.0.0.1', 1]])
    assert.deepEqual(shown(await decisionOn('/team')), [
      ['default', null, 'ip:127.0.0.1', 'ip:127.0.0.1', 2],
      ['team', 'team', 'all', 'rule:team:all', 1],
    ])
    const refused = await decisionOn('/team')
    assert.deepEqual([refused.policy, refused.allowed, refused.client, refused.count], ['team', false, 'all', 2])
    assert.deepEqual(
      refused.limits.map(({ decision }) => [decision?.allowed, decision?.count, decision?.remaining]),
      [
        [true, 2, 998],
        [false, 2, 0],
      ],
      'as they are when the others have got back what was taken',
    )
  })

  test('deny and allow overrides decide alone, and the rate of an override stands in for the group without a name', async (t) => {
    const { app, by, counts } = await startGroupApp(t, [
      { name: 'user', rate: '1/m' },
      { ...TEAM, rate: '4/m' },
    ])
    const overrides = app.smartRateLimit.client.rateLimitOverride
    await overrides.create({ data: { client: 'user:denied', effect: 'deny' } })
    await overrides.create({ data: { client: 'user:free', effect: 'allow' } })
    await overrides.create({ data: { client: 'user:fast', effect: '3/m' } })
    assert.deepEqual([await by('denied'), await by('free'), await by('free')], [403, 200, 200])
    assert.deepEqual(await counts('fast'), { override: 0, team: 0 })
    const statuses = []
    for (let request = 1; request <= 4; request++) statuses.push(await by('fast'))
    assert.deepEqual(statuses, [200, 200, 200, 429])
    assert.deepEqual(await counts('fast'), { override: 3, team: 3 })
    assert.deepEqual([await by('alice'), await by('bob')], [200, 429])
  })

  test('a would-be refusal refuses nobody and is told of, and costs nothing where another limit refuses', async (t) => {
    for (const algorithm of RATE_ALGORITHMS) {
      const { by, counts, request } = await startGroupApp(t, [
        { name: 'user', rate: '3/m', algorithm },
        { ...TEAM, rate: '2/m', algorithm, block: false },
      ])
      assert.deepEqual([await by('alice'), await by('alice')], [200, 200])
      const beyond = await request('/', { headers: { 'x-user': 'alice' } })
      assert.deepEqual([beyond.status, beyond.headers['x-ratelimit-limit']], [200, '2'], algorithm)
      const before = await counts()
      assert.deepEqual([await by('alice'), await by('alice')], [429, 429])
      assert.deepEqual(await counts(), before, algorithm)
    }
  })

  test('each limit takes its own cost, and the route multiplies all of them', async (t) => {
    const { by, counts } = await startGroupApp(
      t,
      [
        { name: 'user', rate: '100/m', cost: 2 },
        { ...TEAM, rate: '13/m', cost: 3 },
      ],
      {
        routes(app) {
          app.get('/twice', { config: { smartRateLimit: { cost: 2 } } }, async () => 'ok')
        },
      },
    )
    assert.deepEqual([await by('alice', '/twice'), await by('alice', '/twice')], [200, 200])
    assert.deepEqual(await counts('alice'), { user: 8, team: 12 })
    assert.equal(await by('alice', '/twice'), 429)
    assert.deepEqual(await counts('alice'), { user: 8, team: 12 })
  })

  test('a peek answers what the next request would be, by the cost of each limit', async (t) => {
    const { by, request } = await startGroupApp(t, [
      { name: 'user', rate: '100/m', cost: 40 },
      { ...TEAM, rate: '10/h' },
    ])
    const peek = async (): Promise<RequestDecision> =>
      JSON.parse((await request('/', { method: 'OPTIONS', headers: { 'x-user': 'alice' } })).text)
    for (let count = 0; count < 2; count++) assert.equal(await by('alice'), 200)
    const { policy, allowed, remaining, limits } = await peek()
    assert.deepEqual([policy, allowed, remaining], ['user', false, 20])
    assert.deepEqual(
      limits.map(({ decision }) => [decision?.allowed, decision?.remaining]),
      [
        [false, 20],
        [true, 8],
      ],
    )
    assert.equal(await by('alice'), 429)
  })

  test('permits are held by the requests that pass every limit, and by no others', async (t) => {
    const started: (() => void)[] = []
    const { by, counts } = await startGroupApp(
      t,
      [
        { name: 'user', rate: '2/m' },
        { ...TEAM, rate: '3/60s', algorithm: 'concurrency' },
        { name: 'each', group: 'each', rate: '9/60s', algorithm: 'concurrency' },
      ],
      {
        routes(app) {
          app.get('/slow', () => new Promise((resolve) => started.push(() => resolve('ok'))))
          app.get('/', async () => 'ok')
        },
      },
    )
    const slow = [by('alice', '/slow'), by('bob', '/slow')]
    await eventually('two are in progress', () => started.length === 2)
    assert.deepEqual([await by('alice'), await by('alice'), await by('alice')], [200, 429, 429])
    assert.deepEqual(await counts('alice'), { user: 2, team: 2, each: 1 })
    slow.push(by('carol', '/slow'))
    await eventually('three are in progress', () => started.length === 3)
    assert.equal(await by('dave'), 429)
    assert.deepEqual(await counts('dave'), { user: 0, team: 3, each: 0 })
    for (const end of started) end()
    assert.deepEqual(await Promise.all(slow), [200, 200, 200])
    await eventually('all permits are back', async () => (await counts('alice')).team === 0)
    assert.equal((await counts('alice')).each, 0)
  })

  test('responses count in each limit that counts them, and in none for a request that another limit refuses', async (t) => {
    const { by, counts } = await startGroupApp(
      t,
      [
        { name: 'user', rate: '2/m', counts: '404' },
        { name: 'each', group: 'each', rate: '4/m' },
        { ...TEAM, rate: '3/m', counts: '4xx' },
      ],
      { routes: (app) => void app.get('/', async () => 'ok') },
    )
    assert.deepEqual([await by('alice'), await by('alice', '/no'), await by('alice', '/no')], [200, 404, 404])
    assert.deepEqual(await counts('alice'), { user: 2, each: 3, team: 2 })
    assert.equal(await by('alice', '/no'), 429)
    assert.deepEqual(await counts('alice'), { user: 2, each: 3, team: 2 })
    assert.equal(await by('bob', '/no'), 404)
    assert.equal(await by('carol', '/no'), 429)
    assert.deepEqual(await counts('carol'), { user: 0, each: 0, team: 3 })
  })

  test('each limit that refuses counts towards its own ban, also one with a shorter wait', async (t) => {
    const { app, by } = await startGroupApp(t, [
      { name: 'user', rate: '1/h', banAfter: 9, banFor: '1h' },
      { name: 'burst', group: 'burst', rate: '1/m', banAfter: 2, banFor: '1h' },
    ])
    assert.deepEqual([await by('alice'), await by('alice'), await by('alice')], [200, 429, 429])
    await eventually('the ban denies', async () => (await by('alice')) === 403)
    const bans = await app.smartRateLimit.client.rateLimitOverride.findMany()
    assert.deepEqual(
      bans.map(({ client, note }) => [client, note]),
      [['user:alice', 'banned by rule burst']],
    )
  })

  test('the ceiling stands beside all limits: where it refuses they get back what they took', async (t) => {
    const plugin = { logEvents: true, middleware: { ceiling: '3/m' } }
    const rules = [
      { name: 'user', rate: '9/h' },
      { ...TEAM, rate: '9/h' },
    ]
    const { app, by, counts, request, database } = await startGroupApp(t, rules, { plugin })
    assert.deepEqual(
      [await by('a'), await by('b'), await by('c'), await by('d'), await by('d')],
      [200, 200, 200, 429, 429],
    )
    assert.deepEqual(await counts('d'), { user: 0, team: 3 })
    const { headers } = await request('/', { headers: { 'x-user': 'd' } })
    assert.equal(headers['x-ratelimit-limit'], '3')
    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.slice(-1).map(({ policy, client, rules }) => [policy, client, rules]),
      [['ceiling', 'ip:127.0.0.1', '+user:+team']],
    )
  })

  test('check() in code gives back as well, what it counts at once included', async (t) => {
    const { request, counts } = await startGroupApp(
      t,
      [
        { name: 'user', rate: '1/m' },
        { ...TEAM, rate: '9/m', counts: '4xx' },
      ],
      {
        routes(app) {
          app.get('/check', { config: { smartRateLimit: false } }, async (request) => app.smartRateLimit.check(request))
        },
      },
    )
    const allowed = []
    for (let check = 1; check <= 3; check++) allowed.push(JSON.parse((await request('/check')).text).allowed)
    assert.deepEqual(allowed, [true, false, false])
    assert.equal((await counts()).team, 1)
  })

  test('a rule without a group and the default limit stand beside those of groups as before', async (t) => {
    const { by, counts } = await startGroupApp(t, [{ ...TEAM, rate: '3/m' }], {
      plugin: { middleware: { defaultRate: '2/m', key: 'user' } },
    })
    assert.deepEqual([await by('a'), await by('a'), await by('a')], [200, 200, 429])
    assert.deepEqual(await counts('a'), { default: 2, team: 2 })
  })
})
