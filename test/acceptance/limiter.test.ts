/** Limits without an app: for workers, queues, sockets and tools. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { createLimiter, type RateLimiterOptions } from '../../src/limiter.js'
import type { RateLimitOptions } from '../../src/plugin/settings/options.js'
import { atEnd } from '../support/at-end.js'
import { startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { openTestRedis, redisMissing } from '../support/redis.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const run = promisify(execFile)
const WORKER = modulePath('test/support/limiter-worker')

const SILENT = { error: () => undefined, warn: () => undefined, info: () => undefined }

/** Where limiters and apps of one test count together. */
interface Place {
  readonly options: RateLimiterOptions
  readonly plugin: RateLimitOptions
}

async function openLimiter(t: TestContext, options: RateLimiterOptions) {
  const limiter = await createLimiter({ storeTimeoutMs: 20_000, log: SILENT, ...options })
  atEnd(t, () => limiter.close())
  return limiter
}

function limitsWithoutRequests(name: string, open: (t: TestContext) => Promise<Place>): void {
  test(
    `on ${name} each algorithm admits a client up to the limit, tells the wait, and keeps clients apart`,
    long(),
    async (t) => {
      const clock = fakeClock()
      const { options } = await open(t)
      const limiter = await openLimiter(t, { ...options, clock })
      for (const algorithm of RATE_ALGORITHMS) {
        const limit = limiter.limit({ name: `jobs ${algorithm}`, rate: '3/m', algorithm })
        assert.equal((await limit.peek('user:7')).remaining, 3)
        const decisions = []
        for (let count = 0; count < 4; count++) decisions.push(await limit.consume('user:7'))
        assert.deepEqual(
          decisions.map(({ allowed, remaining }) => [allowed, remaining]),
          [
            [true, 2],
            [true, 1],
            [true, 0],
            [false, 0],
          ],
          algorithm,
        )
        const waitMs = decisions[3]?.retryAfterMs ?? 0
        assert.ok(waitMs > 0 && waitMs <= 120_000, `${algorithm}: ${waitMs}`)
        assert.equal((await limit.peek('user:7')).allowed, false)
        assert.equal((await limit.consume('user:8')).allowed, true)
      }
    },
  )

  test(`on ${name} a check has a cost of its own, and of another unit than requests it takes the reserve or that`, async (t) => {
    const clock = fakeClock()
    const { options } = await open(t)
    const limiter = await openLimiter(t, { ...options, clock })
    const jobs = limiter.limit({ name: 'jobs', rate: '10/m', cost: 4 })
    assert.deepEqual(
      [(await jobs.consume('all')).remaining, (await jobs.consume('all', { cost: 1 })).remaining],
      [6, 5],
    )
    assert.equal((await jobs.peek('all')).allowed, true)
    assert.equal((await jobs.consume('all', { cost: 6 })).allowed, false)

    const tokens = limiter.limit({ name: 'tokens', rate: '1000/m', unit: 'tokens', reserve: 400 })
    assert.equal((await tokens.consume('user:7')).remaining, 600)
    assert.equal((await tokens.consume('user:7', { cost: 600 })).remaining, 0)
    const refused = await tokens.consume('user:7', { cost: 0 })
    assert.deepEqual([refused.allowed, refused.remaining], [false, 0])
  })

  test(`on ${name} a charge is always taken, and a refund gives it back and stops at 0, by each algorithm`, async (t) => {
    const clock = fakeClock()
    const { options } = await open(t)
    const limiter = await openLimiter(t, { ...options, clock })
    for (const algorithm of RATE_ALGORITHMS) {
      const limit = limiter.limit({ name: `tokens ${algorithm}`, rate: '100/m', algorithm, unit: 'tokens' })
      assert.equal((await limit.charge('user:7', 130))?.remaining, 0)
      assert.equal((await limit.consume('user:7')).allowed, false)
      await limit.refund('user:7', 50)
      assert.equal((await limit.peek('user:7')).remaining, 20, algorithm)
      clock.advance(SECOND_MS)
      assert.equal((await limit.consume('user:7', { cost: 10 })).allowed, true)
      await limit.refund('user:7', 1_000)
      assert.equal((await limit.peek('user:7')).remaining, 100, algorithm)
      // One charge counts as no more than any limit allows.
      await limit.charge('user:7', Number.MAX_SAFE_INTEGER)
      await limit.refund('user:7', 2_147_483_647)
      assert.equal((await limit.peek('user:7')).remaining, 100, algorithm)
      await limit.refund('nobody', 5)
      assert.equal((await limit.peek('nobody')).remaining, 100)
    }
  })

  test(`on ${name} a refund readmits a client of a limit of requests that this process has refused`, async (t) => {
    const { options } = await open(t)
    const limiter = await openLimiter(t, { ...options, clock: fakeClock() })
    const limit = limiter.limit({ name: 'jobs', rate: '2/m' })
    for (let count = 0; count < 5; count++) await limit.consume('user:7')
    assert.equal((await limit.consume('user:7')).allowed, false)
    await limit.refund('user:7', 6)
    assert.equal((await limit.consume('user:7')).allowed, true)
  })

  test(`on ${name} a permit is held until it is released, once, or until the limiter is closed`, async (t) => {
    const clock = fakeClock()
    const { options } = await open(t)
    const other = await openLimiter(t, { ...options, clock })
    const limit = { name: 'exports', rate: '2/60s', algorithm: 'concurrency' } as const
    const limiter = await createLimiter({ storeTimeoutMs: 20_000, log: SILENT, ...options, clock })
    const exportsHere = limiter.limit(limit)
    const exportsThere = other.limit(limit)
    const first = await exportsHere.acquire('user:7')
    const second = await exportsHere.acquire('user:7')
    const third = await exportsHere.acquire('user:7')
    assert.deepEqual([first.allowed, second.allowed, third.allowed], [true, true, false])
    third.release()
    first.release()
    first.release()
    assert.equal((await exportsHere.acquire('user:7')).allowed, true)
    assert.equal((await exportsHere.peek('user:7')).allowed, false)
    assert.equal((await exportsThere.acquire('user:8')).allowed, true)
    await limiter.close()
    await eventually('the permits are free', async () => (await exportsThere.peek('user:7')).remaining === 2)
  })

  test(`on ${name} reset forgets one client, and resetAll all clients of one limit, whatever they are called`, async (t) => {
    const { options } = await open(t)
    const limiter = await openLimiter(t, { ...options, clock: fakeClock() })
    const hostile = ['user:7', 'user:%', 'user:*', 'key:a|b', `key:${'x'.repeat(10_000)}`, 'key:\u0000\ud800']
    const limits = ['fixed_window', 'token_bucket'] as const
    const jobs = limits.map((algorithm) => limiter.limit({ name: '50%_*[job]', rate: '1/m', algorithm }))
    const neighbour = limiter.limit({ name: '50%_*[job]s', rate: '1/m' })
    for (const limit of [...jobs, neighbour]) for (const client of hostile) await limit.consume(client)
    const [fixed] = jobs
    await fixed?.reset('user:7')
    assert.equal((await fixed?.peek('user:7'))?.allowed, true)
    assert.equal((await fixed?.peek('user:%'))?.allowed, false)
    await fixed?.resetAll()
    for (const client of hostile) {
      for (const limit of jobs) assert.equal((await limit.peek(client)).allowed, true, client.slice(0, 20))
      assert.equal((await neighbour.peek(client)).allowed, false, client.slice(0, 20))
    }
  })

  test(`on ${name} a worker counts together with the shared limit of an app, by the client as the app spells it`, async (t) => {
    const clock = fakeClock()
    const { options, plugin } = await open(t)
    const { app, statuses } = await startApp(t, {
      database: null,
      clock,
      plugin: { ...plugin, hashHeaderKeys: true, hashSecret: 'a secret of the host, long enough' },
      async routes(app) {
        const { limit } = app.smartRateLimit
        const shared = (name: string, key: string) => limit({ name, key, rate: '3/m', shared: true })
        for (const [path, key] of [
          ['/ip', 'ip'],
          ['/key', 'header:X-Api-Key'],
          ['/both', 'header:X-Api-Key+ip'],
        ] as const) {
          const options = { onRequest: shared(path.slice(1), key), config: { smartRateLimit: false } } as const
          app.get(path, options, async () => 'ok')
          app.post(path, options, async () => 'ok')
        }
      },
    })
    const limiter = await openLimiter(t, {
      ...options,
      clock,
      hashHeaderKeys: true,
      hashSecret: 'a secret of the host, long enough',
    })
    const headers = { 'x-api-key': 'abc' }
    for (const [path, client] of [
      ['/ip', 'ip:2001:db8::7'],
      ['/key', 'header:X-Api-Key:abc'],
      ['/both', 'header:x-api-key:abc|ip:2001:db8::7'],
    ] as const) {
      const limit = limiter.limit({ name: path.slice(1), rate: '3/m' })
      // Another address of the same network.
      const request = { from: '2001:db8::9', headers }
      assert.deepEqual(await statuses(1, path, request), [200])
      assert.deepEqual(await statuses(1, path, { ...request, method: 'POST' }), [200])
      assert.deepEqual((await limit.consume(client)).remaining, 0, client)
      assert.deepEqual(await statuses(1, path, request), [429], client)
      assert.equal((await limit.consume(client)).allowed, false)
      await limit.resetAll()
      await eventually('the app has noticed', async () => {
        clock.advance(SECOND_MS)
        return (await statuses(1, path, request))[0] === 200
      })
    }
    assert.deepEqual(app.smartRateLimit.store === undefined, false)
  })

  test(`on ${name} the limit of an app forgets all clients of its routes, and no other limit`, async (t) => {
    const { plugin } = await open(t)
    const { app, statuses } = await startApp(t, {
      database: null,
      plugin,
      async routes(app) {
        const limit = app.smartRateLimit.limit({ rate: '1/m' })
        const config = { smartRateLimit: false } as const
        app.get('/one', { onRequest: limit, config }, async () => 'ok')
        app.get('/two/', { onRequest: limit, config }, async () => 'ok')
        app.get('/other', { onRequest: app.smartRateLimit.limit({ rate: '1/m' }), config }, async () => 'ok')
        app.get('/reset', { config }, async () => limit.resetAll().then(() => 'ok'))
      },
    })
    const paths = ['/one', '/two/', '/other']
    for (const path of paths) {
      for (const from of ['203.0.113.7', '203.0.113.8']) await statuses(2, path, { from })
    }
    assert.deepEqual(await statuses(1, '/reset'), [200])
    for (const from of ['203.0.113.7', '203.0.113.8']) {
      const answers = await Promise.all(paths.map((path) => statuses(1, path, { from })))
      assert.deepEqual(answers.flat(), [200, 200, 429])
    }
    await app.close()
  })
}

limitsWithoutRequests('memory', async (t) => {
  const store = new MemoryStore()
  atEnd(t, () => store.close())
  return { options: { store }, plugin: { middleware: { backend: store } } }
})

function toPlace({ location }: TestStore): Place {
  const backend = 'redis' in location ? 'redis' : 'database'
  return { options: location, plugin: { ...location, middleware: { backend } } }
}

function onStore(name: string, open: () => Promise<TestStore>): void {
  limitsWithoutRequests(name, async (t) => {
    const store = await open()
    atEnd(t, store.close)
    return toPlace(store)
  })

  test(`on ${name} an app and a worker in processes of their own admit the limit together, and not one more`, async (t) => {
    const store = await open()
    atEnd(t, store.close)
    const { options, plugin } = toPlace(store)
    const { statuses } = await startApp(t, {
      database: null,
      plugin: { ...plugin, clock: undefined },
      routes(app) {
        const onRequest = app.smartRateLimit.limit({ name: 'both', rate: '60/d', shared: true })
        app.get('/', { onRequest, config: { smartRateLimit: false } }, async () => 'ok')
      },
    })
    const limit = { name: 'both', rate: '60/d' }
    const args = [JSON.stringify({ ...options, storeTimeoutMs: 20_000 }), JSON.stringify(limit), 'ip:203.0.113.7', '50']
    const [worker, answers] = await Promise.all([
      run(process.execPath, [...LOADER, WORKER, ...args]),
      statuses(50, '/', { from: '203.0.113.7' }),
    ])
    const admitted = Number(worker.stdout) + answers.filter((status) => status === 200).length
    assert.equal(admitted, 60)
  })
}

test('with a client of Redis that has a prefix resetAll forgets the counters behind it', {
  skip: redisMissing,
}, async (t) => {
  const { url, namespace, close } = openTestRedis()
  const client = new Redis(url, { keyPrefix: 'app[*]:' })
  atEnd(t, async () => {
    await client.del(`fsr:${namespace}:resets`)
    await client.quit()
    await close()
  })
  const options = { redis: client, namespace, clock: fakeClock() }
  const limit = (await openLimiter(t, options)).limit({ name: 'jobs', rate: '1/m' })
  await limit.consume('user:7')
  assert.equal((await limit.peek('user:7')).allowed, false)
  await limit.resetAll()
  assert.equal((await limit.peek('user:7')).allowed, true)
})

forEachStore(onStore)
onRedisCluster(onStore)
