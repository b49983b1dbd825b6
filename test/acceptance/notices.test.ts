/** Notices: that a client has used a share of a window is told once, over all processes. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { NOON_MS, type NoticeApp, type NoticeAppOptions, startNoticeApp } from '../support/notice-app.js'
import { openRedis, redisMissing } from '../support/redis.js'

const MONTH = { policy: 'tokens', unit: 'tokens', rate: '1000/month', window: 'month' }

/** Returns what was told of, in short, when nothing more can be. */
async function allTold(...apps: readonly NoticeApp[]): Promise<string[]> {
  for (const { app } of apps) await app.close()
  return apps.flatMap(({ told }) =>
    told.map(([client, { window, count }, share]) => `${client} ${window} ${share} ${count}`),
  )
}

interface Shared {
  readonly database: TestDatabase | null
  readonly plugin: RateLimitOptions
}

function onEachStore(declare: (open: (t: TestContext) => Promise<Shared>) => void): void {
  for (const provider of ['sqlite', 'postgresql'] as const) {
    describe(`on ${provider}`, { skip: provider === 'postgresql' && postgresqlMissing }, () =>
      declare(async (t) => ({ database: await openDatabase(t, provider), plugin: {} })),
    )
  }
  describe('on Redis', { skip: redisMissing }, () =>
    declare(async (t) => {
      const { url, namespace } = openRedis(t)
      return { database: null, plugin: { redis: url, namespace, middleware: { backend: 'redis' } } }
    }),
  )
}

onEachStore((open) => {
  async function startTwo(t: TestContext, options: NoticeAppOptions = {}): Promise<[NoticeApp, NoticeApp]> {
    const { database, plugin } = await open(t)
    const clock = fakeClock(NOON_MS)
    const start = () => startNoticeApp(t, database, { clock, ...options, plugin: { ...plugin, ...options.plugin } })
    return [await start(), await start()]
  }

  test('two apps at once tell of each share, client and window once', async (t) => {
    const [one, other] = await startTwo(t)
    const users = Array.from({ length: 12 }, (_, index) => `user${index}`)
    await Promise.all(
      users.flatMap((user) => [one, other].flatMap((app) => [1, 2, 3, 4].map(() => app.use(100, user)))),
    )
    await Promise.all(users.flatMap((user) => [one.use(100, user), other.use(100, user)]))
    const told = await allTold(one, other)
    const named = told.map((text) => text.replace(/ \d+$/, '')).toSorted()
    assert.deepEqual(named, users.flatMap((user) => [`user:${user} month 100`, `user:${user} month 80`]).toSorted())
  })

  test('a share is told of with the limit, and again in the next window', async (t) => {
    const [one, other] = await startTwo(t)
    await one.use(799)
    await other.use(1)
    await eventually('a share is told of', () => other.told.length === 1)
    assert.deepEqual(other.told, [['user:alice', { ...MONTH, count: 800 }, 80]])
    assert.deepEqual(one.told, [])
    await one.use(150)
    one.clock.advance(10 * 86_400_000)
    await one.use(900)
    assert.deepEqual(await allTold(one, other), ['user:alice month 80 900', 'user:alice month 80 800'])
  })

  test('one charge may reach all shares, and refusals and restarts tell nothing anew', async (t) => {
    const [one, other] = await startTwo(t)
    await one.use(2_500)
    assert.equal(await one.use(1), 429)
    assert.equal(await other.use(1), 429)
    assert.deepEqual(await allTold(one, other), ['user:alice month 80 2500', 'user:alice month 100 2500'])
  })
})

test('what is reserved counts as used', async (t) => {
  const app = await startNoticeApp(t, null, { limit: { rate: '1000/m', reserve: 800 } })
  await app.use(5)
  assert.deepEqual(await allTold(app), ['user:alice m 80 800'])
})

test('each window has its own shares, and the one with nothing left is not the only one', async (t) => {
  const app = await startNoticeApp(t, null, { limit: { rate: '100/m, 150/month', noticeAt: '50' } })
  await app.use(40)
  await app.use(20)
  app.clock.advance(60_000)
  await app.use(30)
  assert.deepEqual((await allTold(app)).toSorted(), ['user:alice m 50 60', 'user:alice month 50 90'])
})

for (const algorithm of ['sliding_window', 'token_bucket', 'leaky_bucket'] as const) {
  test(`a ${algorithm} tells of a share once in an aligned period, and again when a later one reaches it`, async (t) => {
    const app = await startNoticeApp(t, null, { limit: { rate: '100/m', algorithm, noticeAt: '80' } })
    await app.use(80)
    app.clock.advance(30_000)
    await app.use(45)
    // Into the next minute with more than the share in use: nothing has reached it there.
    app.clock.advance(31_000)
    await app.use(0)
    app.clock.advance(100_000)
    await app.use(79)
    await app.use(1)
    assert.deepEqual(await allTold(app), ['user:alice m 80 80', 'user:alice m 80 80'])
  })
}

test('a limit of requests tells of its requests, one of responses of those, and one of 0 of none', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const app = await startNoticeApp(t, database, {
    plugin: { useDynamicRules: true, middleware: { defaultRate: '4/m', noticeAt: '50,100', lease: '1s' } },
  })
  const { rateLimitRule } = app.app.smartRateLimit.client
  const rule = { key: 'all', noticeAt: '100' }
  await rateLimitRule.create({ data: { ...rule, name: 'login', pathPattern: '^/login', rate: '2/h', counts: '401' } })
  await rateLimitRule.create({ data: { ...rule, name: 'closed', pathPattern: '^/closed', rate: '0/h' } })
  await rateLimitRule.create({ data: { ...rule, name: 'all', pathPattern: '^/', rate: '5/h', group: 'all' } })
  await app.statuses(2, '/login?status=401')
  await app.statuses(1, '/closed')
  await app.statuses(6, '/')
  await app.app.close()
  assert.deepEqual(
    app.told.map(([client, { policy, unit, count }, share]) => [client, policy, unit, count, share]),
    [
      ['all', 'login', 'requests', 2, 100],
      ['ip:127.0.0.1', 'default', 'requests', 2, 50],
      ['all', 'all', 'requests', 5, 100],
    ],
  )
})

test('checks from code tell, and questions do not', async (t) => {
  const told: unknown[] = []
  const { app, request } = await startApp(t, {
    database: null,
    plugin: { onNotice: (...notice) => told.push(notice), middleware: { defaultRate: '4/m', noticeAt: '50' } },
    routes(app) {
      const config = { smartRateLimit: false } as const
      app.get('/peek', { config }, async (request) => app.smartRateLimit.peek(request))
      app.get('/check', { config }, async (request) => app.smartRateLimit.check(request, { cost: 2 }))
    },
  })
  await request('/peek')
  await request('/check')
  await request('/peek')
  await app.close()
  assert.deepEqual(told, [
    ['ip:127.0.0.1', { policy: 'default', unit: 'requests', rate: '4/m', window: 'm', count: 2 }, 50],
  ])
})

test('a function that fails is logged once, and nothing else is lost', async (t) => {
  const told: string[] = []
  const onNotice = async (client: string) => {
    told.push(client)
    throw new Error('no pager')
  }
  const app = await startNoticeApp(t, null, { plugin: { onNotice } })
  for (const user of ['a', 'b', 'c']) assert.equal(await app.use(800, user), 200)
  await app.app.close()
  assert.deepEqual(told, ['user:a', 'user:b', 'user:c'])
  assert.deepEqual(
    app.log.map(({ msg }) => msg),
    ['Rate limit setting "onNotice" failed: no pager'],
  )
})

test('a share that no database could take is told of when it answers again', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const app = await startNoticeApp(t, database, { plugin: { middleware: { backend: 'memory' }, usage: ['tokens'] } })
  const rename = (from: string, to: string) => database.database.execute(`ALTER TABLE ${from} RENAME TO ${to}`)
  await rename('rate_limit_notice', 'away')
  await app.use(850)
  await eventually('the failure is logged', () => app.log.length === 1)
  assert.match(app.log[0]?.msg ?? '', /^Rate limit notices cannot be claimed: /)
  app.clock.advance(1_000)
  await app.use(1)
  await rename('away', 'rate_limit_notice')
  app.clock.advance(1_000)
  await app.use(1)
  assert.equal((await allTold(app)).length, 1)
  assert.equal(app.log.length, 1)
})

test('a charge that a failing store is owed is told of by a later request', long(), async (t) => {
  const memory = new MemoryStore()
  let isAway = false
  const backend: Store = {
    concurrency: 8,
    async check(checks, nowMs) {
      if (isAway) throw new Error('away')
      return memory.check(checks, nowMs)
    },
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
  const app = await startNoticeApp(t, null, { plugin: { onStoreError: 'allow', middleware: { backend } } })
  isAway = true
  await app.use(900)
  isAway = false
  app.clock.advance(1_000)
  await eventually('the charge is told of', async () => {
    app.clock.advance(1_000)
    await app.use(0)
    return app.told.length > 0
  })
  assert.deepEqual(await allTold(app), ['user:alice month 80 900'])
})

test('a limit without notices makes no counter and no row', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const app = await startNoticeApp(t, database, { limit: { noticeAt: '' } })
  await app.use(2_000)
  await app.app.close()
  const { query, dialect } = database.database
  assert.deepEqual(await query(`SELECT * FROM ${dialect.table('rate_limit_notice')}`), [])
  assert.deepEqual(app.told, [])
})
