import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { EventLog } from '../../src/events/event-log.js'
import { checkHealth } from '../../src/health/health.js'
import { eventLogLook } from '../../src/health/looks.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { EVENT } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { startMailServer } from '../support/mail-server.js'
import { closedPort, startProxyBefore } from '../support/tcp-proxy.js'

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

    assert.deepEqual(await app.smartRateLimit.health(), {
      ok: true,
      ready: true,
      checks: {
        database: { status: 'ok', detail: `${database.url} answers, and is migrated` },
        redis: { status: 'off', detail: 'not used' },
        rules: { status: 'ok', detail: '1 active rule(s)' },
        events: { status: 'ok', detail: '0 s behind, 0 waiting, 0 lost since the start' },
        mail: { status: 'ok', detail: 'the mail server takes a sign-in' },
        schedule: { status: 'off', detail: 'not used' },
      },
    })
  })

  test('a mail server that is away makes an app unwell, but not unready, and is asked once a minute', async (t) => {
    const plugin = {
      alertEmails: ['ops@example.com'],
      defaultFromEmail: 'alerts@example.com',
      smtpUrl: `smtp://somebody:hunter2@127.0.0.1:${await closedPort()}`,
    }
    const { app, clock } = await startApp(t, { database: null, plugin })
    const { ok, ready, checks } = await app.smartRateLimit.health()
    assert.deepEqual([ok, ready, checks.mail.status], [false, true, 'failing'])
    assert.match(checks.mail.detail, /ECONNREFUSED/)
    assert.doesNotMatch(JSON.stringify(checks), /hunter2/)

    const { url: smtpUrl } = await startMailServer(t)
    const well = await startApp(t, { database: null, clock, plugin: { ...plugin, smtpUrl } })
    assert.equal((await well.app.smartRateLimit.health()).checks.mail.status, 'ok')
  })

  test('an app that tells nobody by email needs no mail server', async (t) => {
    const { app } = await startApp(t, { database: null, plugin: { alertEmails: [] } })
    assert.equal((await app.smartRateLimit.health()).checks.mail.status, 'off')
  })

  test('recipients without a mail server are told of', async (t) => {
    const { app } = await startApp(t, { database: null, plugin: { alertEmails: ['ops@example.com'] } })
    const { checks } = await app.smartRateLimit.health()
    assert.match(checks.mail.detail, /^no mail server: set SMTP_URL/)
  })

  test('an app whose database is away is unready, and says so in time', { skip: postgresqlMissing }, async (t) => {
    const target = await openTestDatabase('postgresql')
    t.after(target.close)
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
    assert.match(checks.rules.detail, /0 active rule\(s\) that were read before/)
    await proxy.switchOn()
    assert.equal((await app.smartRateLimit.health()).checks.database.status, 'ok')
  })

  test('a schema without its tables is told of', { skip: postgresqlMissing }, async (t) => {
    const { url, schema, close } = await openTestDatabase('postgresql')
    t.after(close)
    const { app } = await startApp(t, {
      database: null,
      plugin: { database: url, schema: `${schema}_new`, logEvents: true },
    })
    const { checks } = await app.smartRateLimit.health()
    assert.match(checks.database.detail, /apply this package's migrations with "ratelimit migrate"$/)
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
    const looks = { redis: () => new Promise<string>(() => undefined), database: () => 'well' }
    const { ok, checks } = await checkHealth(looks, 50)
    assert.deepEqual(
      [ok, checks.redis, checks.database],
      [false, { status: 'failing', detail: 'it did not answer within 0.05 s' }, { status: 'ok', detail: 'well' }],
    )
  })
})

test('a log is behind by the time that its oldest event waits, and fails after ten seconds', async () => {
  const clock = fakeClock()
  let finish: () => void = () => undefined
  const events = new EventLog({
    write: () =>
      new Promise<void>((resolve) => {
        finish = resolve
      }),
    batchSize: 1,
    bufferSize: 10,
    now: () => clock.now(),
    log: { error: () => undefined },
  })
  const look = async () => (await checkHealth({ events: eventLogLook(events) })).checks.events
  const record = () => events.record({ ...EVENT, timestampMs: clock.now() })

  record()
  clock.advance(4_000)
  record()
  await yieldToEventLoop()
  assert.deepEqual(await look(), { status: 'ok', detail: '4 s behind, 2 waiting, 0 lost since the start' })
  clock.advance(6_001)
  assert.deepEqual(await look(), { status: 'failing', detail: '10.001 s behind, 2 waiting, 0 lost since the start' })
  finish()
  await eventually('the first one is written', () => events.stats().written === 1)
  assert.equal(events.lagMs(), 6_001)
  await yieldToEventLoop()
  finish()
  await events.flush()
  assert.equal(events.lagMs(), 0)
})
