/** Counters in Redis: shared by all apps, kept apart by namespaces, forgotten in time. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { startApp } from '../support/build-app.js'
import { type FakeClock, fakeClock } from '../support/clock.js'
import { eventually } from '../support/eventually.js'
import { openRedis, redisMissing, type TestRedis } from '../support/redis.js'

describe('on Redis', { skip: redisMissing }, () => {
  test('two apps that share a Redis count together, and one with another namespace counts for itself', async (t) => {
    const redis = openRedis(t)
    const clock = fakeClock()
    const [one, two] = [await startOn(t, redis, { clock }), await startOn(t, redis, { clock })]
    const apart = await startOn(t, redis, { clock, plugin: { namespace: `${redis.namespace}_apart` } })

    assert.deepEqual(await one.statuses(2, '/'), [200, 200])
    assert.deepEqual(await two.statuses(2, '/'), [200, 429])
    assert.deepEqual(await one.statuses(1, '/'), [429])
    assert.deepEqual(await apart.statuses(4, '/'), [200, 200, 200, 429])
    clock.advance(MINUTE_MS)
    assert.deepEqual(await two.statuses(4, '/'), [200, 200, 200, 429])
  })

  test('of 200 requests at once, over two apps, exactly the limit is let in', async (t) => {
    const redis = openRedis(t)
    const plugin = { middleware: { defaultRate: '50/m' } }
    const clock = fakeClock()
    const apps = [await startOn(t, redis, { clock, plugin }), await startOn(t, redis, { clock, plugin })]

    const answers = await Promise.all(apps.flatMap(({ request }) => Array.from({ length: 100 }, () => request('/'))))

    assert.equal(answers.filter(({ status }) => status === 200).length, 50)
    assert.equal(answers.filter(({ status }) => status === 429).length, 150)
  })

  test('every counter expires, soon after it means nothing any more, also one that a wrong clock wrote first', async (t) => {
    const redis = openRedis(t)
    // The start of a minute.
    const { app, request, clock } = await startOn(t, redis)
    for (const algorithm of RATE_ALGORITHMS) {
      const policy = { algorithm, limit: 3, periodMs: MINUTE_MS }
      for (const aheadMs of [30 * DAY_MS, 0]) {
        await app.smartRateLimit.store.check([{ key: 'somebody', policy, cost: 1 }], clock.now() + aheadMs)
      }
    }
    await request('/')

    const keys = await redis.keys()
    assert.deepEqual(
      keys.sort(),
      ['f:{default|ip:127.0.0.1}', 'f:{somebody}', 'l:{somebody}', 's:{somebody}', 't:{somebody}'].map(
        (key) => `fsr:${redis.namespace}:${key}`,
      ),
    )
    for (const key of keys) {
      const usefulMs = key.includes(':s:') ? 2 * MINUTE_MS : MINUTE_MS
      const leftMs = await redis.client.pttl(key)
      assert.ok(leftMs > usefulMs - 10 * SECOND_MS && leftMs <= usefulMs + 10 * SECOND_MS, `${key}: ${leftMs} ms`)
    }
  })

  test('a bucket in debt expires when it has drained', async (t) => {
    const redis = openRedis(t)
    const { app, clock } = await startOn(t, redis)
    for (const rate of ['100/m', '100/m, 3000/h']) {
      const policy = toPolicy('leaky_bucket', parseRate(rate))
      await app.smartRateLimit.store.check([{ key: rate, policy, cost: 5_000, charges: true }], clock.now())
      const [leftMs] = await Promise.all(
        (await redis.keys()).filter((key) => key.includes(`{${rate}}`)).map((key) => redis.client.pttl(key)),
      )
      const drainedMs = (rate === '100/m' ? 50 : 100) * MINUTE_MS
      assert.ok(
        Number(leftMs) > drainedMs - 10 * SECOND_MS && Number(leftMs) <= drainedMs + 10 * SECOND_MS,
        `${leftMs}`,
      )
    }
  })

  test('a Redis that forgets its scripts in mid-load costs no request an error, and no counter its count', async (t) => {
    const redis = openRedis(t)
    const { request, log } = await startOn(t, redis, { plugin: { middleware: { defaultRate: '150/m' } } })

    let asked = 0
    const client = async () => {
      const statuses: number[] = []
      for (let count = 0; count < 20; count++) {
        if (++asked % 20 === 0) await redis.client.script('FLUSH')
        statuses.push((await request('/')).status)
      }
      return statuses
    }
    const statuses = (await Promise.all(Array.from({ length: 10 }, client))).flat()

    assert.equal(statuses.filter((status) => status === 200).length, 150)
    assert.equal(statuses.filter((status) => status === 429).length, 50)
    assert.deepEqual(log, [])
  })

  test("a client of the host's own is used as it is, key prefix included, and stays open when the app closes", async (t) => {
    const redis = openRedis(t)
    const client = redis.client.duplicate({ keyPrefix: `fsr:${redis.namespace}/` })
    t.after(() => client.disconnect())
    const { app, statuses } = await startOn(t, redis, { plugin: { redis: client } })
    assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 429])
    assert.deepEqual(await redis.keys(), [`fsr:${redis.namespace}/fsr:${redis.namespace}:f:{default|ip:127.0.0.1}`])

    await app.close()

    assert.equal(await client.ping(), 'PONG')
  })

  test('without events and rules no database is opened', async (t) => {
    const plugin = { database: 'file:/no/such/folder/of/anybody.db' }
    const { statuses, log } = await startOn(t, openRedis(t), { plugin })

    assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 429])
    assert.deepEqual(log, [])
  })

  test('a key that holds something else fails its client alone, is logged once, and is a counter again after a reset', async (t) => {
    const redis = openRedis(t)
    const plugin = { onStoreError: 'deny' } as const
    const clock = fakeClock()
    const [one, two] = [await startOn(t, redis, { clock, plugin }), await startOn(t, redis, { clock, plugin })]
    const key = `fsr:${redis.namespace}:f:{default|ip:203.0.113.0}`
    await redis.client.lpush(key, 'a list')
    const clients = Array.from({ length: 10 }, (_, index) => `203.0.113.${index}`)

    const rounds: number[][] = []
    for (const { request } of [one, two, one, two]) {
      const answers = await Promise.all(clients.map((from) => request('/', { from })))
      rounds.push(answers.map(({ status }) => status))
    }
    for (const index of clients.keys()) {
      const answers = rounds.map((round) => round[index])
      assert.deepEqual(answers, index === 0 ? [503, 503, 503, 503] : [200, 200, 200, 429])
    }
    assert.equal(await redis.client.llen(key), 1, 'it is as it was')
    for (const { log } of [one, two]) {
      const [line, ...others] = log.filter(({ msg }) => msg.startsWith('Rate limit store failed'))
      assert.deepEqual(others, [])
      assert.match(String(line?.msg), /^Rate limit store failed at a key that holds no counter \(\w{8}\): onStoreError/)
      assert.match(String(line?.err?.message), /^Redis: WRONGTYPE/)
    }

    await one.app.smartRateLimit.reset('ip:203.0.113.0')
    const isCounted = async () => (await two.request('/', { from: '203.0.113.0' })).status !== 503
    await eventually('its client is counted again', isCounted)
  })
})

/** An app with 3/m on a Redis, unless told otherwise. */
function startOn(t: TestContext, redis: TestRedis, { clock, plugin = {} }: StartOptions = {}) {
  const { url, namespace } = redis
  const middleware = { backend: 'redis', defaultRate: '3/m', ...plugin.middleware } as const
  return startApp(t, {
    database: null,
    ...(clock === undefined ? {} : { clock }),
    plugin: { redis: url, namespace, ...plugin, middleware },
  })
}

interface StartOptions {
  readonly clock?: FakeClock
  readonly plugin?: RateLimitOptions
}
