/** One line at start says what is in force. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyServerOptions } from 'fastify'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { captureLog, openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type TestDatabase } from '../support/databases.js'
import { REDIS_URL, redisMissing } from '../support/redis.js'

const INFO = 30
const STATIC = 'static limits only, events off, proxies trusted: none'

/** Starts an app, and returns its line. */
async function lineAtStart(
  t: TestContext,
  plugin: RateLimitOptions,
  fastify: FastifyServerOptions = {},
  database: TestDatabase | null = null,
): Promise<string> {
  const { stream, log } = captureLog()
  await startApp(t, { database, plugin, fastify: { trustProxy: false, logger: { level: 'info', stream }, ...fastify } })
  const lines = log.filter(({ msg }) => msg.startsWith('Rate limits: '))
  assert.deepEqual(
    lines.map(({ level }) => level),
    [INFO],
  )
  return lines[0]?.msg.slice('Rate limits: '.length) ?? ''
}

forAnyDatabase((provider) => {
  test('the line says where the database is, how many rules and overrides hold, and what is logged', async (t) => {
    const database = await openDatabase(t, provider)
    const { rateLimitRule, rateLimitOverride } = database.client
    for (const name of ['one', 'two', 'three'])
      await rateLimitRule.create({ data: { name, rate: '5/m', pathPattern: '.' } })
    await rateLimitRule.create({ data: { name: 'off', rate: '5/m', pathPattern: '.', isActive: false } })
    for (const client of ['ip:203.0.113.7', 'user:7'])
      await rateLimitOverride.create({ data: { client, effect: 'deny' } })
    const url = database.database.url.replace(/\/\/.*@/, '//***@').replace(/\?.*/, '')

    const plugin = { useDynamicRules: true, logEvents: true }
    assert.equal(
      await lineAtStart(t, plugin, {}, database),
      `database ${url}, 3 rules, 2 overrides, events on, proxies trusted: none`,
    )

    await rateLimitRule.deleteMany({ where: { name: { not: 'one' } } })
    await rateLimitOverride.deleteMany({ where: { client: 'user:7' } })
    assert.equal(
      await lineAtStart(t, { ...plugin, logEvents: 'blocked', middleware: { backend: 'memory' } }, {}, database),
      `counters in memory, database ${url}, 1 rule, 1 override, events of refusals only, proxies trusted: none`,
    )
    assert.equal(await lineAtStart(t, {}, {}, database), `database ${url}, ${STATIC}`)
  })
})

test('without a database the line names the counters alone', async (t) => {
  const store: Store = {
    concurrency: 1,
    check: async () => [],
    reset: async () => undefined,
    close: async () => undefined,
  }
  assert.equal(await lineAtStart(t, {}), `counters in memory, ${STATIC}`)
  assert.equal(await lineAtStart(t, { middleware: { backend: new MemoryStore() } }), `counters in memory, ${STATIC}`)
  assert.equal(await lineAtStart(t, { middleware: { backend: store } }), `counters in a store of the app, ${STATIC}`)
  assert.equal(await lineAtStart(t, { enabled: false }), 'off, since "enabled" is false')
})

test('the line has no name and no password of a server', { skip: redisMissing }, async (t) => {
  const { hostname, port } = new URL(REDIS_URL)
  const redis = `redis://${hostname}:${port || 6379}/0?keyPrefix=app:`
  const line = await lineAtStart(t, { redis, middleware: { backend: 'redis' } })
  assert.equal(line, `counters in redis://${hostname}:${port || 6379}/0, ${STATIC}`)

  const cluster = 'redis://app:s3cret@127.0.0.1:1,rediss://app:s3cret@127.0.0.2:1'
  const ofCluster = await lineAtStart(t, { redis: cluster, middleware: { backend: 'redis' } })
  assert.equal(ofCluster, `counters in redis://***@127.0.0.1:1 rediss://***@127.0.0.2:1, ${STATIC}`)
})

test('a database that cannot be reached keeps no app from starting: the rules are not known yet', async (t) => {
  const database = 'postgresql://app:s3cret@127.0.0.1:1/limits?password=s3cret'
  assert.equal(
    await lineAtStart(t, { database, useDynamicRules: true, logEvents: true, middleware: { backend: 'database' } }),
    'database postgresql://***@127.0.0.1:1/limits, rules and overrides not known yet, events on, proxies trusted: none',
  )
})

test('the line says whose forwarding headers are believed, as Fastify has it', async (t) => {
  for (const [trustProxy, words] of [
    [false, 'none'],
    [true, 'all'],
    ['10.0.0.0/8, ::1', '10.0.0.0/8, ::1'],
    [['loopback', '10.0.0.0/8'], 'loopback, 10.0.0.0/8'],
    [
      Array.from({ length: 7 }, (_, index) => `10.0.0.${index}`),
      '10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 2 more',
    ],
    [() => true, 'by a function'],
    // This release of Fastify ignores a number, which its types do not have.
    [2 as never, 'none'],
  ] as const) {
    const proxies = typeof trustProxy === 'object' ? [...trustProxy] : trustProxy
    const line = await lineAtStart(t, {}, { trustProxy: proxies })
    assert.equal(line, `counters in memory, static limits only, events off, proxies trusted: ${words}`)
  }
})
