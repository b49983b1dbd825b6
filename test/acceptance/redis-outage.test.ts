/** Redis goes away under a running server, hangs, and comes back. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { ERROR, type LogLine, startApp } from '../support/build-app.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { clusterMissing, startCluster } from '../support/redis-cluster.js'
import { closedPort, startProxyBefore } from '../support/tcp-proxy.js'

const outages = (log: readonly LogLine[]) => log.filter(({ msg }) => /store failed/i.test(msg))
const errors = (log: readonly LogLine[]) => log.filter(({ level }) => level >= ERROR)

test('with no Redis at the port the app starts, says so once, counts in memory, and shows no password', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    plugin: {
      redis: `redis://user:hunter2@127.0.0.1:${await closedPort()}`,
      middleware: { backend: 'redis', defaultRate: '2/m' },
    },
  })

  assert.deepEqual(await statuses(4, '/'), [200, 200, 429, 429])
  await eventually('the start has failed', () => errors(log).length === 2)
  assert.equal(outages(log).length, 1)
  assert.match(JSON.stringify(log), /Rate limit Redis: Redis is not connected.*ECONNREFUSED/)
  assert.doesNotMatch(JSON.stringify(log), /hunter2/)
})

describe('on Redis', { skip: redisMissing }, () => {
  for (const [onStoreError, ...meanwhile] of [
    ['local', 200, '99'],
    ['allow', 200, '100'],
    ['deny', 503, '0'],
  ] as const) {
    test(
      `while Redis is away, onStoreError '${onStoreError}' decides; it is logged once, and the old counters go on`,
      long(),
      async (t) => {
        const { request, statuses, proxy, log, clock, goesOn } = await startBehindProxy(t, {
          onStoreError,
          middleware: { defaultRate: '100/h' },
        })
        assert.deepEqual(await statuses(2, '/'), [200, 200])

        await proxy.switchOff()
        const { status, headers } = await request('/')
        assert.deepEqual([status, headers['x-ratelimit-remaining']], meanwhile)
        clock.advance(5_000)
        await statuses(2, '/')
        await proxy.switchOn()

        await eventually('the counter goes on', async () => {
          clock.advance(1_000)
          return goesOn()
        })
        assert.equal(outages(log).length, 1)
      },
    )
  }

  test('a Redis that hangs in mid-load holds up a request for storeTimeoutMs at most, and later ones not at all', async (t) => {
    const { request, statuses, proxy, log } = await startBehindProxy(t, {
      storeTimeoutMs: 150,
      middleware: { defaultRate: '30/m' },
    })
    await request('/')
    proxy.hang()

    const startedMs = performance.now()
    const answers = await Promise.all(Array.from({ length: 20 }, () => request('/')))
    const firstMs = performance.now() - startedMs
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
    assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
    const laterMs = performance.now() - startedMs - firstMs

    assert.ok(firstMs >= 100 && firstMs < 1_500, `${firstMs} ms`)
    assert.ok(laterMs < 500, `${laterMs} ms`)
    assert.equal(outages(log).length, 1)
  })

  test(
    'a connection that went dead is given up: the counters go on over a new one, without a restart',
    long(),
    async (t) => {
      const { request, proxy, clock, goesOn } = await startBehindProxy(t, {
        storeTimeoutMs: 100,
        middleware: { defaultRate: '100/h' },
      })
      await request('/')
      proxy.hang()
      await request('/')

      proxy.heal()

      const recovered = () => {
        clock.advance(1_000)
        return goesOn()
      }
      await eventually('the counter goes on', recovered, 12_000)
    },
  )

  test('closing the app does not wait for a Redis that hangs, nor for one that is away', async (t) => {
    for (const trouble of ['hang', 'switchOff'] as const) {
      const { app, request, proxy } = await startBehindProxy(t, { storeTimeoutMs: 50 })
      await request('/')
      await proxy[trouble]()
      await request('/')

      const closed = app.close().then(() => 'closed')
      assert.equal(await Promise.race([closed, delay(3_000, 'still waiting', { ref: false })]), 'closed')
    }
  })
})

async function startBehindProxy(t: TestContext, plugin: RateLimitOptions) {
  const redis = openRedis(t)
  const { proxy, url } = await startProxyBefore(t, redis.url, 6379)
  const started = await startApp(t, {
    database: null,
    plugin: {
      redis: url,
      namespace: redis.namespace,
      ...plugin,
      middleware: { backend: 'redis', ...plugin.middleware },
    },
  })

  /** Whether a request is counted in Redis, beside which no other request may be under way. */
  async function goesOn(): Promise<boolean> {
    const count = async () => (await redis.client.get(`fsr:${redis.namespace}:f:{default|ip:127.0.0.1}`))?.split(' ')[2]
    const before = await count()
    await started.request('/')
    return before !== undefined && Number(await count()) === Number(before) + 1
  }
  return { ...started, proxy, goesOn }
}

for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
  test(
    `one node of a cluster is gone (${signal}): the clients of the others are counted exactly, and one outage is logged`,
    long(clusterMissing),
    async (t) => {
      const { url, signalFirst, stop } = await startCluster()
      atEnd(t, stop)
      const { statuses, app, log } = await startApp(t, {
        database: null,
        plugin: {
          redis: url,
          onStoreError: 'deny',
          storeTimeoutMs: 2_000,
          middleware: { backend: 'redis', defaultRate: '3/h' },
        },
      })
      const clients = Array.from({ length: 30 }, (_, index) => `203.0.113.${index}`)
      const ask = () => Promise.all(clients.map(async (from) => (await statuses(1, '/', { from }))[0]))
      assert.deepEqual(new Set(await ask()), new Set([200]))
      signalFirst(signal)
      const rounds = [await ask()]
      const isDead = rounds[0]?.map((status) => status === 503) ?? []
      await eventually('its outage is noticed', () => outages(log).length === 1)
      for (let round = 0; round < 3; round++) rounds.push(await ask())
      assert.ok(isDead.includes(true) && isDead.includes(false))
      for (const [client, isGone] of isDead.entries()) {
        const answers = rounds.map((statuses) => statuses[client])
        assert.deepEqual(answers, isGone ? [503, 503, 503, 503] : [200, 200, 429, 429])
      }
      assert.equal(outages(log).length, 1)
      assert.match(
        outages(log)[0]?.msg ?? '',
        /^Rate limit store failed at 127\.0\.0\.1:\d+: onStoreError decides for its/,
      )
      assert.equal((await app.smartRateLimit.health()).checks.redis.status, 'failing')
      if (signal === 'SIGSTOP') {
        signalFirst('SIGCONT')
        await eventually('its clients are counted again', async () => !(await ask()).includes(503))
      }
    },
  )
}
