/** What is stored of one client is deleted, and nothing of others. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { createAddressPrivacy } from '../../../src/clients/address-privacy.js'
import { HOUR_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../../src/index.js'
import { foldAll, verifyRollups } from '../../../src/log/rollups/catch-up.js'
import { eraseClient } from '../../../src/operations/erasure/erase-client.js'
import { markIncident } from '../../../src/rules/history/incident-changes.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { forEachDatabase, type TestDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { eventually } from '../../support/eventually.js'
import { long } from '../../support/long.js'
import { openRedis, redisMissing } from '../../support/redis.js'
import { ratelimit } from '../../support/scripts.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.70'
const SECRET = 'a secret of the host, long enough'
const TABLES = [
  'rate_limit_event',
  'rate_limit_client_key',
  'rate_limit_client_rollup',
  'rate_limit_request_rollup',
  'rate_limit_blocked_rollup',
  'rate_limit_traffic_rollup',
  'rate_limit_trend',
  'rate_limit_counter',
  'rate_limit_sliding_window',
  'rate_limit_alert',
  'rate_limit_override',
  'rate_limit_change',
]

/** The variables of a command. */
function locations({ url, events }: TestDatabase) {
  return { RATELIMIT_DATABASE_URL: url, RATELIMIT_EVENTS_DATABASE_URL: events?.database ?? '' }
}

/** Returns the rows of all tables that may name a client. */
async function rowsOf({ database, log }: TestDatabase): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const table of TABLES) {
    const rows = await Promise.all(
      [...new Set([database, log])].map(({ query, dialect }) => query<object>(`SELECT * FROM ${dialect.table(table)}`)),
    )
    found[table] = rows.flat().map((row) => JSON.stringify(row))
  }
  return found
}

/** Returns the tables that name one of some texts, at the end of a word. */
function naming(rows: Record<string, string[]>, ...texts: string[]): string[] {
  const name = new RegExp(texts.map((text) => `${text.replace(/[.|]/g, '\\$&')}(?![0-9a-f.:])`).join('|'))
  return Object.entries(rows).flatMap(([table, all]) => (all.some((row) => name.test(row)) ? [table] : []))
}

/** Serves requests of Alice and Bob, of addresses, users and both, over two days. */
async function serve(t: TestContext, database: TestDatabase, plugin: RateLimitOptions = {}) {
  const started = await startApp(t, {
    database,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      alertThreshold: 1,
      alertWebhook: (await startWebhookReceiver(t)).url,
      alertCooldown: 3_600,
      ...plugin,
      middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '2/m' }, ...plugin.middleware },
    },
    before(app) {
      app.decorateRequest('user', null)
      app.addHook('onRequest', async (request) => {
        const id = request.headers['x-user']
        Object.assign(request, { user: typeof id === 'string' ? { id: Number(id) } : null })
      })
    },
  })
  const { app, statuses, clock } = started
  const { rateLimitRule, rateLimitOverride } = app.smartRateLimit.client
  await rateLimitRule.create({
    data: { name: 'slow', pathPattern: '^/slow', rate: '1/m', algorithm: 'sliding_window' },
  })
  await rateLimitRule.create({ data: { name: 'both', pathPattern: '^/both', rate: '1/m', key: 'ip+header:X-Tenant' } })
  await rateLimitRule.create({ data: { name: 'account', pathPattern: '^/account', rate: '1/m', key: 'user' } })
  await rateLimitRule.create({ data: { name: 'tenant', pathPattern: '^/tenant', rate: '1/m', key: 'header:X-Tenant' } })
  // It decides about requests that are counted by address, too.
  await rateLimitRule.create({
    data: { name: 'team', group: 'team', pathPattern: '^/team', rate: '1/m', key: 'user' },
  })
  await rateLimitRule.create({
    data: { name: 'ban', pathPattern: '^/ban', rate: '1/m', banAfter: 1, banFor: '30d' },
  })
  for (let hour = 0; hour < 3; hour++) {
    for (const from of [ALICE, BOB]) {
      for (const path of ['/', '/slow', '/both', '/auth/x']) await statuses(3, path, { from })
    }
    for (const user of [7, 77]) {
      await statuses(3, '/account', { from: user === 7 ? '192.0.2.1' : '192.0.2.2', headers: { 'x-user': user } })
      await statuses(2, '/team', { from: user === 7 ? '192.0.2.5' : '192.0.2.6', headers: { 'x-user': user } })
      await statuses(1, '/seen', { from: '192.0.2.3', headers: { 'x-user': user } })
    }
    // A header that spells Alice, in both ways that look like her.
    await statuses(1, '/tenant', { from: '192.0.2.4', headers: { 'x-tenant': `a|ip:${ALICE}` } })
    clock.advance(HOUR_MS)
  }
  for (const from of [ALICE, BOB]) {
    await statuses(2, '/ban', { from })
    await eventually('the ban is in force', async () => (await statuses(1, '/', { from }))[0] === 403)
  }
  await rateLimitOverride.create({ data: { client: `ip:${ALICE}`, effect: '5/m', pathPattern: '^/x', note: 'Alice' } })
  await rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: '9/m', pathPattern: '^/y' } })
  await rateLimitOverride.create({ data: { client: 'user:7', effect: '9/m' } })
  await app.smartRateLimit.analytics.sendOffenderAlerts()
  await app.smartRateLimit.events.flush()
  await foldAll(database.log, clock.now())
  return started
}

function erase(database: TestDatabase, client: string, now: () => number, { privacy = false, dryRun = false } = {}) {
  const pseudonyms = createAddressPrivacy({ addresses: 'pseudonym', secret: SECRET, ipv6Subnet: 64 })
  return eraseClient(
    {
      database: database.database,
      clock: { now },
      ipv6Subnet: 64,
      privacy: privacy ? pseudonyms : undefined,
      redis: undefined,
      namespace: undefined,
      eventSpool: undefined,
    },
    client,
    { dryRun, batchSize: 7 },
  )
}

forEachDatabase((provider) => {
  test(
    'an address is erased from every table, its neighbours and look-alikes stay, and sums stay exact',
    long(),
    async (t) => {
      const database = await openDatabase(t, provider)
      const { app, clock } = await serve(t, database)
      const { analytics } = app.smartRateLimit
      const before = await analytics.getClient({ client: `ip:${BOB}` })
      const trial = await erase(database, `ip:${ALICE}`, clock.now, { dryRun: true })
      const untouched = await rowsOf(database)
      assert.ok(naming(untouched, `ip:${ALICE}`, ALICE).length > 7)

      const result = await erase(database, `ip:${ALICE}`, clock.now)
      assert.deepEqual({ ...trial, kept: [] }, { ...result, kept: [] }, 'the dry run said so')
      assert.deepEqual(result.clients, [`ip:${ALICE}`])
      assert.ok(result.events >= 36 && result.counters >= 4 && result.alerts >= 4)
      assert.equal(result.overrides, 2)
      assert.match(result.kept.join('\n'), /1 override of networks/)
      const rows = await rowsOf(database)
      const ofTenants = rows.rate_limit_event?.filter((row) => row.includes(`${ALICE}"`)) ?? []
      assert.equal(ofTenants.length, 3)
      for (const row of ofTenants) assert.match(row, /header:x-tenant:a\|ip:/)
      const {
        rate_limit_event: _,
        rate_limit_client_rollup,
        rate_limit_request_rollup,
        rate_limit_blocked_rollup,
        ...others
      } = rows
      const counters = others.rate_limit_counter?.filter(
        (row) => !row.includes(`rule:tenant|header:x-tenant:a\\\\|ip:${ALICE}"`),
      )
      assert.deepEqual(naming({ ...others, rate_limit_counter: counters ?? [] }, ALICE), [])
      for (const sums of [rate_limit_client_rollup, rate_limit_request_rollup, rate_limit_blocked_rollup]) {
        for (const row of sums?.filter((row) => row.includes(`${ALICE}"`)) ?? []) assert.match(row, /a\|ip:/)
      }
      const after = await analytics.getClient({ client: `ip:${BOB}` })
      assert.deepEqual(after, before)
      const reports = async () => [await analytics.getTopClients(), await analytics.getTrafficSummary({ days: 2 })]
      const incremental = await reports()
      await verifyRollups(database.database, clock.now())
      assert.deepEqual(incremental, await reports(), 'sums are what a recount makes of the log')
      const changes = await app.smartRateLimit.rules.history('erased')
      assert.ok(changes.length >= 4)
      assert.ok(changes.every(({ before, after }) => (before ?? after)?.client === 'erased'))
      assert.deepEqual(
        await erase(database, ALICE, clock.now).then(({ events, overrides, counters }) => [
          events,
          overrides,
          counters,
        ]),
        [0, 0, 0],
      )
    },
  )

  test('what was decided about the incidents of a client, and told of them, is erased', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, clock } = await startApp(t, {
      database,
      plugin: { logEvents: true, alertWebhook: (await startWebhookReceiver(t)).url },
    })
    const { analytics, rules } = app.smartRateLimit
    const clients = ['user:7', 'user:77', `ip:${ALICE}`, `ip:${ALICE}|user:7`]
    const refusals = clients.flatMap((client) =>
      Array.from({ length: 60 }, () => ({
        timestampMs: clock.now(),
        client,
        key: `k ${client}`,
        allowed: false,
        outcome: 'over_limit' as const,
      })),
    )
    await logRows(database.database, refusals)
    for (const client of clients) await markIncident(database.database, client, true, clock.now())
    await analytics.sendIncidentAlerts()
    const told = async () => {
      const [row] = await database.database.query<{ count: number }>(
        `SELECT COUNT(*) AS count FROM ${database.database.dialect.table('rate_limit_alert')}`,
      )
      return Number(row?.count)
    }
    const before = await told()
    const trial = await erase(database, 'user:7', clock.now, { dryRun: true })
    assert.equal(await told(), before)
    const { alerts, changes } = await erase(database, 'user:7', clock.now)
    assert.deepEqual([trial.alerts, trial.changes], [alerts, changes])
    assert.deepEqual([alerts, before - (await told()), changes], [1, 1, 2])
    const named = (await rules.history()).map(({ entity, name }) => `${entity} ${name}`)
    assert.deepEqual(named, ['incident erased', `incident ip:${ALICE}`, 'incident user:77', 'incident erased'])
    assert.equal((await erase(database, ALICE, clock.now)).changes, 1)
  })

  test('a user is erased, also where events of an address only name it; user:77 stays', async (t) => {
    const database = await openDatabase(t, provider)
    const { clock } = await serve(t, database)
    const result = await erase(database, 'user:7', clock.now)
    assert.deepEqual([result.events, result.emptied_events, result.overrides], [15, 3, 1])
    const rows = await rowsOf(database)
    assert.deepEqual(naming(rows, 'user:7'), [])
    assert.ok(naming(rows, 'user:77').length > 3)
    assert.deepEqual(
      rows.rate_limit_event?.filter((row) => /"user_id":"?7"?,/.test(row)),
      [],
    )
  })

  test(
    'the pseudonym of an address is derived, and what was stored before in clear is erased too',
    long(),
    async (t) => {
      const database = await openDatabase(t, provider)
      const plugin: RateLimitOptions = { privacy: { addresses: 'pseudonym' }, hashSecret: SECRET }
      const { clock } = await serve(t, database, plugin)
      await database.client.rateLimitEvent.create({
        data: {
          timestamp: new Date(clock.now()),
          key: `ip:${ALICE}`,
          path: '/',
          method: 'GET',
          allowed: true,
          count: 1,
          limit: 2,
          ipAddress: ALICE,
        },
      })
      const { clients, events, overrides } = await erase(database, `ip:${ALICE}`, clock.now, { privacy: true })
      assert.match(clients[1] ?? '', /^ip:~[0-9a-f]{32}$/)
      assert.ok(events >= 37)
      assert.equal(overrides, 2)
      const spelled = clients.map((name) => name.slice('ip:'.length))
      for (const row of Object.values(await rowsOf(database)).flat()) {
        if (spelled.some((name) => row.includes(`${name}"`))) assert.match(row, /header:(?:x-tenant:)?a(?:\\\\)?\|ip:/)
      }
    },
  )
})

test('users whose ids spell further parts keep their events', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { clock } = await startApp(t, { database })
  const names = ['user:7', 'user:7|x', 'user:a|user:7', 'ip:192.0.2.1|user:7']
  const columns = { path: '/', method: 'GET', allowed: true, count: 1, limit: 2, timestamp: new Date(clock.now()) }
  await database.client.rateLimitEvent.createMany({
    data: names.map((client) => ({ ...columns, client, key: client.replace('ip:', '') })),
  })
  const { events } = await erase(database, 'user:7', clock.now)
  assert.equal(events, 2)
  const left = await database.client.rateLimitEvent.findMany({ orderBy: { client: 'asc' } })
  assert.deepEqual(
    left.map(({ client }) => client),
    ['user:7|x', 'user:a|user:7'],
  )
})

/** Returns the bytes of all files of a SQLite database. */
function bytesOf({ url }: TestDatabase): string {
  const folder = dirname(url.slice('file:'.length))
  return Buffer.concat(readdirSync(folder).map((file) => readFileSync(join(folder, file)))).toString('latin1')
}

test('what SQLite deletes is overwritten', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const address = '198.51.100.222'
  const { app, statuses, clock } = await startApp(t, { database, plugin: { logEvents: true, useDynamicRules: true } })
  await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${address}`, effect: '5/m' } })
  await statuses(3, '/', { from: address })
  await app.smartRateLimit.events.flush()
  await foldAll(database.log, clock.now())
  await database.database.query('PRAGMA wal_checkpoint(TRUNCATE)')
  assert.ok(bytesOf(database).includes(address))
  await erase(database, address, clock.now)
  await database.database.query('PRAGMA wal_checkpoint(TRUNCATE)')
  assert.equal(bytesOf(database).includes(address), false)
})

test('erasing beside traffic loses no event of others, stops when it is interrupted, and goes on when it is run again', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, request, clock } = await startApp(t, {
    database,
    plugin: { logEvents: true, middleware: { defaultRate: '10000/m' } },
  })
  const send = (from: string, times: number) => Promise.all(Array.from({ length: times }, () => request('/', { from })))
  await send(ALICE, 60)
  await send(BOB, 60)
  await app.smartRateLimit.events.flush()
  const interrupted = new AbortController()
  const dependencies = {
    database: database.database,
    clock,
    ipv6Subnet: 64,
    privacy: undefined,
    redis: undefined,
    namespace: undefined,
    eventSpool: undefined,
  }
  const onProgress = () => interrupted.abort('a test')
  const [first] = await Promise.all([
    eraseClient(dependencies, ALICE, { dryRun: false, batchSize: 7, onProgress, signal: interrupted.signal }),
    send(BOB, 60),
  ])
  assert.equal(first.recounted_hours, 0, 'it was interrupted')
  await Promise.all([erase(database, ALICE, clock.now), send(BOB, 60)])
  const { events } = await erase(database, ALICE, clock.now)
  assert.equal(events, 0)
  const clients = await app.smartRateLimit.analytics.getTopClients({ by: 'requests' })
  assert.deepEqual(
    clients.map(({ client, requests }) => [client, requests]),
    [[`ip:${BOB}`, 180]],
  )
})

describe('in Redis', { skip: redisMissing }, () => {
  test('counters of a client are deleted, others stay; events in a spool are found', long(), async (t) => {
    const redis = openRedis(t)
    const database = await openDatabase(t, 'sqlite')
    const { url, namespace } = redis
    const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
    atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
    const middleware = { backend: 'redis' as const, defaultRate: '1/m', rateLimits: { '/auth/': '1/m' } }
    const { app, statuses } = await startApp(t, {
      database,
      plugin: { redis: url, namespace, middleware, logEvents: true, eventSpool: folder },
    })
    for (const from of [ALICE, BOB]) for (const path of ['/', '/auth/x']) await statuses(2, path, { from })
    const table = database.log.dialect.table('rate_limit_event')
    await app.smartRateLimit.events.flush()
    await database.log.execute(`ALTER TABLE ${table} RENAME TO away`)
    await statuses(1, '/spooled', { from: ALICE })
    await eventually('it is in the spool', () => app.smartRateLimit.events.stats().spooled === 1)
    await app.close()
    await database.log.execute(`ALTER TABLE ${database.log.dialect.table('away')} RENAME TO rate_limit_event`)

    const env = {
      ...locations(database),
      RATELIMIT_REDIS_URL: url,
      RATELIMIT_EVENT_SPOOL: folder,
      RATELIMIT_LOG_EVENTS: 'true',
    }
    const trial = await ratelimit(['erase', '--client', ALICE, '--dry-run'], { env })
    assert.match(
      trial.stdout,
      /^DRY RUN: nothing is deleted\.\nWould be deleted of ip:203\.0\.113\.7:\n {2}Events: 4\n/,
    )
    assert.match(trial.stdout, /1 event in the spool/)
    writeFileSync(join(folder, 'a.events.unreadable'), '')
    const { status, stdout, stderr } = await ratelimit(
      ['erase', '--client', `ip:${ALICE}`, '--namespace', namespace, '--json'],
      { env },
    )
    assert.deepEqual([status, stderr], [0, ''])
    const { events, redis_counters, dry_run, kept } = JSON.parse(stdout)
    assert.deepEqual([events, redis_counters, dry_run], [5, 2, false])
    assert.deepEqual(kept, [
      '1 file of the spool that cannot be read (*.unreadable) and may name it: delete them.',
      'The totals of each hour, which have no clients.',
    ])
    const keys = (await redis.keys()).join('\n')
    assert.equal(keys.includes(`${ALICE}}`), false)
    assert.ok(keys.includes(`${BOB}}`))
    assert.equal(readdirSync(folder).filter((name) => name.endsWith('.events')).length, 0)
  })

  test('counters are found behind a prefix that the client of Redis puts before all keys', async (t) => {
    const { url, namespace, client } = openRedis(t)
    const database = await openDatabase(t, 'sqlite')
    const stored = () => client.keys(`app*:fsr:${namespace}:?:*`)
    atEnd(t, async () => void (await client.unlink(await client.keys(`app*:fsr:${namespace}:*`))))
    const redis = `${url}?keyPrefix=${encodeURIComponent('app[1]:')}`
    const middleware = { backend: 'redis' as const, defaultRate: '9/m' }
    const { statuses } = await startApp(t, { database, plugin: { redis, namespace, middleware } })
    for (const from of [ALICE, BOB]) await statuses(1, '/', { from })
    assert.equal((await stored()).length, 2)

    const env = { ...locations(database), RATELIMIT_REDIS_URL: redis }
    const { stdout } = await ratelimit(['erase', '--client', ALICE, '--namespace', namespace, '--json'], { env })
    assert.equal(JSON.parse(stdout).redis_counters, 1)
    assert.deepEqual(await stored(), [`app[1]:fsr:${namespace}:f:{default|ip:${BOB}}`])
  })
})

test('a Redis that cannot be reached is a failure, and the rest is deleted', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, statuses } = await startApp(t, { database, plugin: { logEvents: true } })
  await statuses(2, '/', { from: ALICE })
  await app.smartRateLimit.events.flush()
  const env = { ...locations(database), RATELIMIT_REDIS_URL: 'redis://127.0.0.1:9' }
  const { status, stdout, stderr } = await ratelimit(['erase', '--client', ALICE], { env })
  assert.equal(status, 1)
  assert.match(stdout, / {2}Events: 2\n/)
  assert.match(stderr, /Redis is not connected.*run it again/)
})

test('what is no single client is wrong usage, and says what to give', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  for (const client of ['203.0.113.0/24', 'nobody', 'ip:~xyz', 'ip:2001:db8::/32', '']) {
    const { status, stderr } = await ratelimit(['erase', '--client', client], {
      env: locations(database),
    })
    assert.equal(status, 2, client)
    assert.match(stderr, /not a single client: give ip:203\.0\.113\.7, user:<id>/)
  }
})

test('a shortened client keeps the events of its network, and says so; its counters and bans are deleted', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { clock } = await serve(t, database, { privacy: { addresses: 'truncated' }, hashSecret: SECRET })
  const privacy = createAddressPrivacy({ addresses: 'truncated', secret: SECRET, ipv6Subnet: 64 })
  const stores = { redis: undefined, namespace: undefined, eventSpool: undefined }
  const batches = { dryRun: false, batchSize: 1_000 }
  const result = await eraseClient(
    { database: database.database, clock, ipv6Subnet: 64, privacy, ...stores },
    ALICE,
    batches,
  )
  assert.deepEqual([result.events, result.overrides], [0, 2])
  assert.ok(result.counters >= 4)
  assert.match(result.kept.join('\n'), /\d+ events? of ip:203\.0\.113\.0\/24: they do not tell which address/)
})
