import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { MINUTE_MS } from '../../../src/ground/time/clock.js'
import { MemoryStore, type RateLimitOptions, type Store } from '../../../src/index.js'
import { EventLog } from '../../../src/log/event-log.js'
import { EventLogState } from '../../../src/log/event-log-state.js'
import { HEALTH_CHECKS, probeHealth } from '../../../src/operations/health/health.js'
import { eventLogProbe } from '../../../src/operations/health/probes.js'
import { pluginParts } from '../../../src/plugin/parts.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { openTestDatabase, postgresqlMissing } from '../../support/databases.js'
import { EVENT, tableOf } from '../../support/events.js'
import { eventually } from '../../support/eventually.js'
import { long } from '../../support/long.js'
import { startMailServer } from '../../support/mail-server.js'
import { openRedis, redisMissing } from '../../support/redis.js'
import { clusterMissing, startCluster } from '../../support/redis-cluster.js'
import { closedPort, startProxyBefore } from '../../support/tcp-proxy.js'

describe('app.smartRateLimit.health()', () => {
  test('says of each part that is used how it does, and of the others that they are off', async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const { url: smtpUrl } = await startMailServer(t)
    const plugin = {
      logEvents: true,
      useDynamicRules: true,
      alertEmails: ['ops@example.com'],
      defaultFromEmail: 'alerts@example.com',
      smtpUrl,
    }
    const { app, statuses } = await startApp(t, { database, plugin })
    await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '5/m' } })
    await statuses(2, '/')
    await app.smartRateLimit.events.flush()

    const off = Object.fromEntries(HEALTH_CHECKS.map((name) => [name, { status: 'off', detail: 'not used' }]))
    assert.deepEqual(await app.smartRateLimit.health(), {
      ok: true,
      ready: true,
      checks: {
        ...off,
        database: { status: 'ok', detail: `${database.url} answers, and is migrated` },
        rules: { status: 'ok', detail: '1 active rule' },
        events: { status: 'ok', detail: '0 s behind, 0 waiting, 0 lost since the start' },
        usage: { status: 'ok', detail: '0 s behind, 0 waiting, 0 lost since the start' },
        charges: {
          status: 'ok',
          detail: '0 charges and 0 refunds owed to the store; 0 charges and 0 refunds lost since the start',
        },
        mail: { status: 'ok', detail: 'the mail server accepts a sign-in' },
      },
    })
  })

  test('usage that cannot be written and charges that a store is owed fail, and metrics count what is lost', async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const memory = new MemoryStore()
    let isAway = false
    const store: Store = {
      concurrency: 1,
      async check(checks, nowMs) {
        if (isAway) throw new Error('the store is away')
        return memory.check(checks, nowMs)
      },
      reset: (keys) => memory.reset(keys),
      close: () => memory.close(),
    }
    const registry = new Registry()
    const plugin: RateLimitOptions = {
      usage: ['tokens'],
      eventBuffer: 1,
      middleware: { backend: store, unit: 'tokens', defaultRate: '100/m' },
      metrics: { prometheus: registry },
    }
    const { app, request, log } = await startApp(t, {
      database,
      plugin,
      routes: (app) => {
        app.get('/', async (request) => app.smartRateLimit.charge(request, { tokens: 5 }))
      },
    })
    await request('/')
    const { checks } = await app.smartRateLimit.health()
    assert.deepEqual([checks.usage.status, checks.charges.status], ['ok', 'ok'])
    await database.log.execute(
      `CREATE TRIGGER full BEFORE INSERT ON rate_limit_usage BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
    )
    isAway = true
    for (let times = 0; times < 3; times++) await request('/')
    await pluginParts(app).usage?.flush()
    const failing = await app.smartRateLimit.health()
    assert.deepEqual([failing.ok, failing.ready], [false, true])
    assert.match(failing.checks.usage.detail, /^\d s behind, \d waiting, \d lost since the start \(.*the disk is full/)
    assert.deepEqual(failing.checks.charges, {
      status: 'failing',
      detail: '3 charges and 0 refunds owed to the store; 0 charges and 0 refunds lost since the start',
    })
    const figures = await registry.metrics()
    assert.match(figures, /^ratelimit_charges_owed 3$/m)
    assert.match(figures, /^ratelimit_usage_dropped_total [1-9]$/m)
    const lines = log.map(({ msg }) => msg)
    assert.equal(lines.filter((line) => line.startsWith('Rate limit store failed')).length, 1)
    assert.equal(lines.filter((line) => line.startsWith('Rate limit sums of usage')).length, 1, lines.join('\n'))
  })

  test('a mail server that is away makes an app unwell, but not unready', async (t) => {
    const plugin = {
      alertEmails: ['ops@example.com'],
      defaultFromEmail: 'alerts@example.com',
      smtpUrl: `smtp://somebody:hunter2@127.0.0.1:${await closedPort()}`,
    }
    const { app } = await startApp(t, { database: null, plugin })
    const { ok, ready, checks } = await app.smartRateLimit.health()
    assert.deepEqual([ok, ready, checks.mail.status], [false, true, 'failing'])
    assert.match(checks.mail.detail, /ECONNREFUSED/)
    assert.doesNotMatch(JSON.stringify(checks), /hunter2/)
  })

  test('a mail server is asked once a minute at most', async (t) => {
    let asked = 0
    const mailer = {
      sendMail: async () => undefined,
      verify: async () => {
        asked++
      },
    }
    const { app, clock } = await startApp(t, {
      database: null,
      plugin: { alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com', mailer },
    })
    for (const ms of [0, 0, MINUTE_MS - 1]) {
      clock.advance(ms)
      await app.smartRateLimit.health()
    }
    assert.equal(asked, 1)
    clock.advance(1)
    await app.smartRateLimit.health()
    assert.equal(asked, 2)
  })

  test('an app without alerts by email needs no mail server', async (t) => {
    const { app } = await startApp(t, { database: null, plugin: { alertEmails: [] } })
    assert.equal((await app.smartRateLimit.health()).checks.mail.status, 'off')
  })

  test('recipients without a mail server are reported', async (t) => {
    const { app } = await startApp(t, { database: null, plugin: { alertEmails: ['ops@example.com'] } })
    const { checks } = await app.smartRateLimit.health()
    assert.match(checks.mail.detail, /^no mail server: set SMTP_URL/)
  })

  test('an app whose database is away is unready, and says so in time', { skip: postgresqlMissing }, async (t) => {
    const target = await openTestDatabase('postgresql')
    atEnd(t, target.close)
    const { proxy, url } = await startProxyBefore(t, target.url, 5432)
    const { app } = await startApp(t, {
      database: null,
      plugin: { database: url, schema: target.schema, logEvents: true, useDynamicRules: true, storeTimeoutMs: 200 },
    })
    assert.equal((await app.smartRateLimit.health()).ready, true)
    await proxy.switchOff()
    app.smartRateLimit.rules.invalidateCache()
    const { ready, checks } = await app.smartRateLimit.health()
    assert.deepEqual([ready, checks.database.status, checks.rules.status], [false, 'failing', 'failing'])
    assert.match(checks.rules.detail, /0 active rules that were read before/)
    await proxy.switchOn()
    assert.equal((await app.smartRateLimit.health()).checks.database.status, 'ok')
  })

  test('a schema without its tables is reported', { skip: postgresqlMissing }, async (t) => {
    const { url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const { app } = await startApp(t, {
      database: null,
      plugin: { database: url, schema: `${schema}_new`, logEvents: true },
    })
    const { checks } = await app.smartRateLimit.health()
    assert.match(checks.database.detail, /apply this package's migrations with "ratelimit migrate( --schema \w+)?"$/)
  })

  test('a database that answers and takes no writes is reported', long(postgresqlMissing), async (t) => {
    const { url, schema, close } = await openTestDatabase('postgresql')
    atEnd(t, close)
    const readOnly = new URL(url)
    readOnly.searchParams.set('options', '-c default_transaction_read_only=on')
    const database = { database: readOnly.href, schema }
    const counting = await startApp(t, { database: null, plugin: { ...database, middleware: { backend: 'database' } } })
    const { ready, checks } = await counting.app.smartRateLimit.health()
    assert.equal(ready, false)
    assert.match(checks.database.detail, /read-only transaction/)

    const logging = await startApp(t, { database: null, plugin: { ...database, logEvents: true } })
    await logging.statuses(3, '/')
    await logging.app.smartRateLimit.events.flush()
    const health = await logging.app.smartRateLimit.health()
    assert.deepEqual([health.ready, health.checks.database.status], [true, 'ok'])
    assert.match(
      health.checks.events.detail,
      /^0 s behind, 3 waiting, 0 lost since the start \(.*read-only transaction/,
    )
  })

  test('a Redis that answers and takes no writes is reported', { skip: redisMissing }, async (t) => {
    const { client, namespace, url } = openRedis(t)
    await client.call('ACL', 'SETUSER', namespace, 'on', '>secret', '~*', '+@all', '-@write')
    atEnd(t, () => client.call('ACL', 'DELUSER', namespace))
    const redis = new URL(url)
    redis.username = namespace
    redis.password = 'secret'
    const { app } = await startApp(t, {
      database: null,
      plugin: { redis: redis.href, namespace, middleware: { backend: 'redis' } },
    })
    const { ready, checks } = await app.smartRateLimit.health()
    assert.equal(ready, false)
    assert.match(checks.redis.detail, /can't run this command/)
  })

  test('a server of a cluster that is used as a single Redis is reported', long(clusterMissing), async (t) => {
    const { url, stop } = await startCluster()
    atEnd(t, stop)
    for (const [redis, status] of [
      [url, 'ok'],
      [url.replace('?cluster=true', ''), 'failing'],
    ] as const) {
      const { app } = await startApp(t, { database: null, plugin: { redis, middleware: { backend: 'redis' } } })
      assert.equal((await app.smartRateLimit.health()).checks.redis.status, status)
    }
  })

  test('Redis is asked where the counters are in it', async (t) => {
    const redis = `redis://127.0.0.1:${await closedPort()}`
    const { app } = await startApp(t, { database: null, plugin: { redis, middleware: { backend: 'redis' } } })
    const { ready, checks } = await app.smartRateLimit.health()
    assert.deepEqual([ready, checks.redis.status], [false, 'failing'])
    assert.match(checks.redis.detail, /ECONNREFUSED/)
  })
})

describe('a health check', () => {
  test('that hangs is given up, and takes no other one along', async () => {
    const probes = { redis: () => new Promise<string>(() => undefined), database: () => 'well' }
    const { ok, checks } = await probeHealth(probes, 50)
    assert.deepEqual(
      [ok, checks.redis, checks.database],
      [false, { status: 'failing', detail: 'it did not answer within 0.05 s' }, { status: 'ok', detail: 'well' }],
    )
  })
})

test('a log is behind by the time that its oldest event waits, and fails after ten seconds', async () => {
  const clock = fakeClock()
  let finish: () => void = () => undefined
  const now = () => clock.now()
  const state = new EventLogState(now, { error: () => undefined })
  const table = tableOf(
    () =>
      new Promise<void>((resolve) => {
        finish = resolve
      }),
  )
  const events = new EventLog({ writer: 'a', table: state.counting(table), batchSize: 1, bufferSize: 10, now, state })
  const probe = async () => (await probeHealth({ events: eventLogProbe(events) })).checks.events
  const record = () => events.record({ ...EVENT, timestampMs: clock.now() })

  record()
  clock.advance(4_000)
  record()
  await yieldToEventLoop()
  assert.deepEqual(await probe(), { status: 'ok', detail: '4 s behind, 2 waiting, 0 lost since the start' })
  clock.advance(6_001)
  assert.deepEqual(await probe(), { status: 'failing', detail: '10.001 s behind, 2 waiting, 0 lost since the start' })
  finish()
  await eventually('the first one is written', () => events.stats().written === 1)
  assert.equal(events.lagMs(), 10_001)
  await yieldToEventLoop()
  finish()
  await events.flush()
  assert.equal(events.lagMs(), 0)
})

test('a log that loses its events fails until one is written', async () => {
  let fails = true
  const now = () => EVENT.timestampMs
  const state = new EventLogState(now, { error: () => undefined })
  const write = async () => {
    if (fails) throw new Error('the value is refused')
  }
  const table = state.counting({ ...tableOf(write), refusesRows: () => true })
  const events = new EventLog({ writer: 'a', table, batchSize: 1, bufferSize: 10, now, state })
  const probe = async () => (await probeHealth({ events: eventLogProbe(events) })).checks.events

  events.record(EVENT)
  await events.flush()
  const detail = '0 s behind, 0 waiting, 1 lost since the start (the value is refused)'
  assert.deepEqual(await probe(), { status: 'failing', detail })
  fails = false
  events.record(EVENT)
  await events.flush()
  assert.equal((await probe()).status, 'ok')
})
