/** Limits of tokens in code: what is reserved by a function, what clients are told, usage, and wrong settings. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { Registry } from 'prom-client'
import {
  MemoryStore,
  type RateLimitOptions,
  type RouteLimitOptions,
  rateLimitPlugin,
  type Store,
} from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

const ALICE = { headers: { 'x-user': 'alice' } }
const BOB = { headers: { 'x-user': 'bob' } }

async function start(t: TestContext, limit: RouteLimitOptions, plugin: RateLimitOptions = {}) {
  return startApp(t, {
    database: await openDatabase(t, 'sqlite'),
    plugin: {
      headers: 'draft',
      user: ({ headers }) => (headers['x-user'] === undefined ? null : { id: String(headers['x-user']) }),
      ...plugin,
      middleware: { backend: 'memory', defaultRate: '1000/m', ...plugin.middleware },
    },
    routes(app) {
      app.get('/chat', { onRequest: app.smartRateLimit.limit(limit) }, async (request) => {
        return app.smartRateLimit.charge(request, { tokens: 40, 'content-bytes': 5_000_000_000 })
      })
    },
  })
}

test('a function of the request says what it reserves; where that fails, nothing is reserved, and it is logged once', async (t) => {
  let reserve: () => Promise<number> | number = async () => 60
  const limit = { name: 'tokens', rate: '100/m', key: 'user', unit: 'tokens', reserve: () => reserve() } as const
  const { request, log } = await start(t, limit)
  const first = await request('/chat', ALICE)
  assert.deepEqual(JSON.parse(first.text), { tokens: 40, 'content-bytes': null })
  assert.match(String(first.headers['ratelimit-policy']), /"tokens";q=100;qu="tokens";w=60/)
  assert.match(String(first.headers.ratelimit), /^"tokens";r=40;t=\d+$/)
  const refused = await request('/chat', { headers: { ...ALICE.headers, accept: 'application/problem+json' } })
  assert.equal(refused.status, 200, 'the reservation is given back when the response has ended')
  reserve = () => 21
  assert.equal((await request('/chat', ALICE)).status, 429)
  reserve = () => -1
  assert.equal((await request('/chat', ALICE)).status, 200)
  reserve = () => Promise.reject(new Error('no model'))
  assert.equal((await request('/chat', BOB)).status, 200)
  assert.deepEqual(
    log.filter(({ msg }) => msg.includes('limit.reserve')).map(({ msg }) => msg),
    ['Rate limit setting "limit.reserve" failed: Setting "limit.reserve" is -1: give an integer, 0 to 2147483647'],
  )
})

test('a request that reserves more than any limit allows is refused, and does not pass as one that reserves nothing', async (t) => {
  const reserve = ({ headers }: FastifyRequest) => Number(headers['x-length'])
  const limit = { name: 'bytes', rate: '2147483646/h', key: 'user', unit: 'content-bytes', reserve } as const
  const { request, log } = await start(t, limit)
  for (const length of ['2147483647', '2147483648', '3000000000.5', '1e400']) {
    const refused = await request('/chat', { headers: { ...ALICE.headers, 'x-length': length } })
    assert.equal(refused.status, 429, length)
    assert.equal(refused.headers['retry-after'], undefined, 'waiting does not help')
  }
  assert.deepEqual(log, [])
})

test('usage has each charge once, also of a unit without a limit, for the client of the limit', async (t) => {
  const limit = { name: 'tokens', rate: '1000/m', key: 'user', unit: 'tokens', reserve: 60 }
  const { app, request, clock } = await start(t, limit, { usage: ['tokens', 'content-bytes'] })
  for (let times = 1; times <= 3; times++) await request('/chat', ALICE)
  const range = { since: new Date(clock.now() - 86_400_000), until: new Date(clock.now() + 86_400_000) }
  const usageOf = async (unit: string) => (await app.smartRateLimit.analytics.getUsage({ unit, ...range })).rows
  await eventually('usage is written', async () => (await usageOf('tokens'))[0]?.requests === 3)
  assert.deepEqual(await usageOf('tokens'), [{ client: 'user:alice', amount: 120, requests: 3 }])
  assert.deepEqual(await usageOf('content-bytes'), [{ client: 'user:alice', amount: 15_000_000_000, requests: 3 }])
})

test('a charge that is not a whole number, or whose unit has no valid name, rejects and charges nothing', async (t) => {
  const { app, request } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: 'memory', defaultRate: '100/m', unit: 'tokens' } },
    routes(app) {
      app.get('/', async (request) => {
        const complaints = [
          await Reflect.apply(app.smartRateLimit.charge, undefined, [request, 5]).catch(
            (error: Error) => error.message,
          ),
        ]
        for (const wrong of [{ tokens: -1 }, { tokens: 0.5 }, { tokens: Number.NaN }, { tokens: 1, Tokens: 1 }]) {
          complaints.push(await app.smartRateLimit.charge(request, wrong).catch((error: Error) => error.message))
        }
        return complaints
      })
    },
  })
  const { text } = await request('/')
  assert.deepEqual(JSON.parse(text), [
    'The charges are 5: give amounts by unit, such as { tokens: 1834 }',
    'The charge of "tokens" is -1: give a whole number from 0 on',
    'The charge of "tokens" is 0.5: give a whole number from 0 on',
    'The charge of "tokens" is NaN: give a whole number from 0 on',
    '"Tokens" is not a valid unit: give at most 30 of a-z 0-9 - _, beginning with a letter, such as tokens',
  ])
  assert.ok(app.hasDecorator('smartRateLimit'))
  assert.equal((await request('/')).headers['x-ratelimit-remaining'], '100')
})

test('a request is charged by itself, in the process that has it: an id or a copy rejects, and charges nothing', async (t) => {
  const requests: FastifyRequest[] = []
  const reserve = (request: FastifyRequest) => 60 * requests.push(request)
  const { app, request } = await start(t, { name: 'tokens', rate: '100/m', unit: 'tokens', reserve })
  await request('/chat', ALICE)
  const { charge } = app.smartRateLimit
  await assert.rejects(
    Reflect.apply(charge, undefined, [{ ...requests[0] }, { tokens: 1 }]),
    /give the request of Fastify/,
  )
  for (const [wrong, text] of [
    [undefined, 'undefined'],
    ['req-1', '"req-1"'],
    [{ id: 'req-1', raw: {} }, "{ id: 'req-1', raw: {} }"],
  ]) {
    await assert.rejects(Reflect.apply(charge, undefined, [wrong, { tokens: 1 }]), {
      name: 'FastifyError',
      message: `The charged request is ${text}: give the request of Fastify, in the process that handles it`,
    })
  }
})

test('a limit that code asks for a request several times is charged once, and its latest reservations are given back first', async (t) => {
  const limit = { name: 'tokens', rate: '1000/m', key: 'user', unit: 'tokens', reserve: 30 } as const
  const used: number[] = []
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: 'memory' }, user: ({ headers }) => ({ id: String(headers['x-user']) }) },
    routes(app) {
      const tokens = app.smartRateLimit.limit(limit)
      const { charge } = app.smartRateLimit
      const note = async (request: FastifyRequest) => used.push((await tokens.peek(request))?.count ?? -1)
      app.get('/chat', { onRequest: tokens }, async (request) => {
        await tokens.check(request)
        await charge(request, { tokens: 25 }) // of the 60 that are reserved
        await note(request)
        await charge(request, { tokens: 45 })
        await note(request)
        await tokens.check(request)
        await charge(request, { tokens: 5 })
        await note(request)
        return 'ok'
      })
      app.addHook('onResponse', async (request) => {
        if (request.url === '/chat') setImmediate(() => void note(request))
      })
    },
  })
  await request('/chat', ALICE)
  await eventually('the response has ended', async () => used.length === 4)
  assert.deepEqual(used, [60, 70, 100, 75])
})

test('a request that a limit of its route refuses keeps what a rule has reserved, unless it is charged for nothing', async (t) => {
  let charges = false
  const { app, request } = await startApp(t, {
    database: null,
    plugin: {
      middleware: { backend: 'memory', defaultRate: '100/m', unit: 'tokens', reserve: 30 },
      onRefused: (refused) => (charges ? app.smartRateLimit.charge(refused, { tokens: 0 }) : undefined),
    },
    routes(app) {
      const once = app.smartRateLimit.limit({ rate: '1/m' })
      app.get('/', { onRequest: once }, async (request) => app.smartRateLimit.charge(request, { tokens: 10 }))
    },
  })
  assert.deepEqual(JSON.parse((await request('/')).text), { tokens: 70 })
  const left = async () => (await request('/')).headers['x-ratelimit-remaining']
  const reserved = async () => (await request('/other')).headers['x-ratelimit-remaining']
  charges = true
  assert.equal(await left(), '0')
  assert.equal(await reserved(), '60', 'the refused request has given back what it had reserved')
  charges = false
  await left()
  assert.equal(await reserved(), '0', 'this one has not')
})

test('a request of another app is usage alone, of the client that its address is, since no limit here has met it', async (t) => {
  const requests: FastifyRequest[] = []
  const routes = (other: FastifyInstance) => {
    other.get('/', async (request) => {
      requests.push(request)
      return 'ok'
    })
  }
  const other = await startApp(t, { database: null, plugin: { middleware: { unit: 'tokens' } }, routes })
  const { app, clock } = await start(
    t,
    { name: 'tokens', rate: '100/m', key: 'all', unit: 'tokens' },
    { usage: ['tokens'] },
  )
  await other.request('/', { from: '203.0.113.7' })
  assert.deepEqual(await app.smartRateLimit.charge(requests[0] as FastifyRequest, { tokens: 70 }), { tokens: null })
  const range = { since: new Date(clock.now()), until: new Date(clock.now() + 86_400_000) }
  const usage = async () => (await app.smartRateLimit.analytics.getUsage({ unit: 'tokens', ...range })).rows
  await eventually('usage is written', async () => (await usage()).length > 0)
  assert.deepEqual(await usage(), [{ client: 'ip:203.0.113.7', amount: 70, requests: 1 }])
})

/** A store that can be taken away. */
function awayStore() {
  const memory = new MemoryStore()
  const state = { isAway: false }
  const backend: Store = {
    concurrency: 8,
    async check(checks, nowMs) {
      if (state.isAway) throw new Error('away')
      return memory.check(checks, nowMs)
    },
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  return { state, backend }
}

test(
  'while the store is away a charge answers null, is owed, which the metrics tell, and is counted later',
  long(),
  async (t) => {
    const { state, backend } = awayStore()
    const registry = new Registry()
    const limit = { name: 'tokens', rate: '100/m', key: 'user', unit: 'tokens' }
    const plugin = { metrics: { prometheus: registry }, onStoreError: 'allow', middleware: { backend } } as const
    const { request, clock } = await start(t, limit, plugin)
    const leftAfter = async () => JSON.parse((await request('/chat', ALICE)).text).tokens
    const owed = async () => (await registry.getSingleMetric('ratelimit_charges_owed')?.get())?.values[0]?.value
    assert.equal(await leftAfter(), 60)
    state.isAway = true
    assert.equal(await leftAfter(), null)
    assert.equal(await owed(), 1)
    state.isAway = false
    clock.advance(1_000)
    await request('/chat', BOB)
    await eventually('the charge is counted', async () => (await owed()) === 0)
    assert.equal(await leftAfter(), 0, '40 before the outage, 40 in it, 40 now')
  },
)

for (const onStoreError of ['local', 'allow'] as const) {
  test(
    `the store is owed all that is charged of a request that reserved while it was away: ${onStoreError}`,
    long(),
    async (t) => {
      const { state, backend } = awayStore()
      const limit = { name: 'tokens', rate: '100/m', key: 'user', unit: 'tokens', reserve: 35 }
      const { request, clock } = await start(t, limit, { onStoreError, middleware: { backend } })
      const use = async (user = ALICE) => {
        const { status, text } = await request('/chat', user)
        return status === 200 ? JSON.parse(text).tokens : status
      }
      state.isAway = true
      await use(BOB)
      assert.equal(await use(), null)
      assert.equal(await use(), null)
      if (onStoreError === 'local')
        assert.equal(await use(), 429, '80 count in this process, and no reservation besides')
      state.isAway = false
      clock.advance(1_000)
      let others = 0
      const someoneElse = () => use({ headers: { 'x-user': `other-${others++}` } })
      await eventually('the store answers again', async () => (await someoneElse()) === 60)
      assert.equal(await use(), 429, '80 are counted')
    },
  )
}

const WRONG: readonly (readonly [RouteLimitOptions, RegExp])[] = [
  [{ rate: '5/m', noticeAt: '0' }, /^Setting "limit\.noticeAt" is "0": "0" is not valid: give one to three/],
  [
    { rate: '5/m', algorithm: 'concurrency', noticeAt: '80' },
    /^Setting "limit\.noticeAt" is "80": The algorithm concurrency counts requests in progress/,
  ],
  [{ rate: '5/m', unit: 'Tokens' }, /^Setting "limit\.unit" is "Tokens": .*is not a valid unit/],
  [
    { rate: '5/m', unit: 'tokens', reserve: 6 },
    /^Setting "limit\.reserve" is 6, more than the rate ever allows: give at most 5/,
  ],
  [
    { rate: '5/m', unit: 'tokens', reserve: 1.5 },
    /^Setting "limit\.reserve" is 1\.5: give an integer, 0 to 2147483647, or a function of the request$/,
  ],
  [{ rate: '5/m', reserve: 1 }, /^Setting "limit\.reserve" is 1, but requests are not charged later/],
  [{ rate: '5/m', unit: 'tokens', cost: 2 }, /^Setting "limit\.cost" is 2, but a limit of tokens takes the reserve/],
  [{ rate: '5/m', reserve: () => 1 }, /^Setting "limit\.reserve" is a function, but requests are not charged later/],
  [{ rate: '5/m', unit: 'tokens', cost: () => 1 }, /^Setting "limit\.cost" is a function, but a limit of tokens/],
  [{ rate: '5/m', unit: 'tokens', counts: '5xx' }, /^Setting "limit\.counts" counts responses, not tokens/],
  [
    { rate: '5/m', unit: 'tokens', algorithm: 'concurrency' },
    /^Setting "limit\.algorithm" counts requests in progress, not tokens/,
  ],
]

test('what a limit of a unit cannot have is refused with the setting, the value and the remedy', async (t) => {
  const { app } = await startApp(t, { database: null, plugin: { middleware: { backend: 'memory' } } })
  for (const [options, message] of WRONG) {
    assert.throws(() => app.smartRateLimit.limit(options), { name: 'FastifyError', message })
  }
  const other = Fastify()
  other.register(rateLimitPlugin, { middleware: { backend: 'memory', unit: 'tokens', defaultRate: '5/m', reserve: 6 } })
  await assert.rejects(async () => other.ready(), /Setting "middleware\.reserve" is 6, more than/)
})
