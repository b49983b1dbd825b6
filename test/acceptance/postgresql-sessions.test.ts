/** What a role, a database, a URL or the environment sets for sessions of PostgreSQL changes nothing here. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import { createRateLimitClient, migrate } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openNamedPostgresql } from '../support/named-postgresql.js'
import { createDatabase } from '../support/postgresql-databases.js'
import { POSTGRES_URL } from '../support/postgresql-schemas.js'
import { startSocketServer } from '../support/socket-server.js'

/** All that changes how values are spelled, in the form that is furthest from the one that is used. */
const SPELLINGS = {
  DateStyle: "'SQL, DMY'",
  IntervalStyle: "'sql_standard'",
  bytea_output: "'escape'",
  extra_float_digits: '-15',
  standard_conforming_strings: 'off',
  search_path: "'nowhere'",
} as const

/** What PgBouncer takes of a client at its start without being told to; it closes the connection for any other. */
const KNOWN_TO_POOLERS = new Set([
  'user',
  'database',
  'application_name',
  'client_encoding',
  'TimeZone',
  'DateStyle',
  'standard_conforming_strings',
])

/** Stands for a pooler: notes what clients ask for at their start, and passes on what it does not drop. */
async function startPooler(t: TestContext, drops: (name: string) => boolean = () => false) {
  const url = new URL(POSTGRES_URL)
  const target = { host: url.hostname, port: Number(url.port || 5432) }
  const names = new Set<string>()
  const { port } = await startSocketServer(t, (client) => {
    const upstream = connect(target).on('error', () => undefined)
    client.once('data', (start) => {
      const texts = start.subarray(8).toString().split('\0').slice(0, -2)
      const kept = texts.filter((_, place) => !drops(texts[place - (place % 2)] ?? ''))
      for (const [place, name] of texts.entries()) if (place % 2 === 0) names.add(name)
      const body = Buffer.from(`${kept.join('\0')}\0\0`)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(body.length + 8)
      upstream.write(Buffer.concat([length, start.subarray(4, 8), body]))
      client.pipe(upstream).pipe(client)
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return { url, names }
}

/** Sets the options of sessions that the environment has, until the end of the test. */
function setOptions(t: TestContext, options: string | undefined): void {
  const before = process.env.PGOPTIONS
  const set = (value: string | undefined) => {
    if (value === undefined) delete process.env.PGOPTIONS
    else process.env.PGOPTIONS = value
  }
  set(options)
  atEnd(t, () => set(before))
}

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  for (const zone of ['Asia/Kolkata', 'America/New_York']) {
    test(`rules, bans and events keep their moments where the database spells them by ${zone}`, async (t) => {
      const { url } = await createDatabase(t, { settings: { TimeZone: `'${zone}'`, ...SPELLINGS } })
      await migrate({ database: url })
      const { app, clock, statuses } = await startApp(t, {
        database: null,
        plugin: { database: url, logEvents: true, useDynamicRules: true, middleware: { backend: 'database' } },
      })
      const { client, events, rules } = app.smartRateLimit
      const nowMs = clock.now()
      const inAnHour = new Date(nowMs + HOUR_MS)

      const rate = '0/m'
      await client.rateLimitRule.create({ data: { name: 'later', pathPattern: '^/later$', rate, startsAt: inAnHour } })
      await client.rateLimitRule.create({ data: { name: 'now', pathPattern: '^/now$', rate, endsAt: inAnHour } })
      await client.rateLimitRule.create({
        data: { name: 'ban', pathPattern: '^/ban$', rate, banAfter: 1, banFor: '1h' },
      })
      assert.deepEqual(await statuses(1, '/later'), [200])
      assert.deepEqual(await statuses(1, '/now'), [429])
      assert.deepEqual(await statuses(1, '/ban'), [429])
      await eventually('the ban is in force', async () => (await statuses(1, '/later'))[0] === 403)
      const [ban] = await client.rateLimitOverride.findMany()
      assert.equal(ban?.expiresAt?.getTime(), nowMs + HOUR_MS)

      await events.flush()
      const event = await client.rateLimitEvent.findFirst({ where: { path: '/now' } })
      assert.equal(event?.timestamp.getTime(), nowMs)
      assert.equal(
        (await app.smartRateLimit.analytics.getOffenderDetail({ key: event?.key ?? '' })).last_seen,
        new Date(nowMs).toISOString(),
      )
      const [change] = await rules.history('now')
      assert.equal(change?.after?.endsAt, inAnHour.getTime())

      clock.advance(HOUR_MS)
      await eventually('all of it is over', async () => (await statuses(1, '/now'))[0] === 200)
      assert.deepEqual(await statuses(1, '/later'), [429])
    })
  }

  test('moments are kept whatever the URL or the environment set for sessions', async (t) => {
    const { url, schema } = await openDatabase(t, 'postgresql')
    const options = '-c TimeZone=Asia/Kolkata -c DateStyle=German'
    setOptions(t, options)
    for (const database of [url, `${url}?options=${encodeURIComponent(options)}`]) {
      const client = createRateLimitClient({ database, schema, threads: false })
      atEnd(t, () => client.$disconnect())
      const startsAt = new Date('2026-07-01T12:00:00.123Z')
      const { id } = await client.rateLimitRule.create({
        data: { name: 'a', pathPattern: '^/', rate: '1/m', startsAt },
      })
      assert.deepEqual((await client.rateLimitRule.findUniqueOrThrow({ where: { id } })).startsAt, startsAt)
      const [row] = await client.$queryRawUnsafe<{ ms: number }[]>(
        `SELECT extract(epoch FROM starts_at)::float8 * 1000 AS ms FROM ${schema}.rate_limit_rule WHERE id = ${id}`,
      )
      assert.equal(row?.ms, startsAt.getTime())
      await client.rateLimitRule.delete({ where: { id } })
    }
  })

  test('a pooler is asked at the start for nothing but what every one of them passes on', async (t) => {
    const { schema } = await openDatabase(t, 'postgresql')
    const { url, names } = await startPooler(t)
    setOptions(t, undefined)
    const client = createRateLimitClient({ database: url.href, schema, threads: false })
    atEnd(t, () => client.$disconnect())
    assert.equal(await client.rateLimitRule.count(), 0)
    assert.equal(await client.rateLimitEvent.cleanupOld({ olderThanDays: 1 }), 0)

    assert.ok(names.has('TimeZone'))
    assert.deepEqual(
      [...names].filter((name) => !KNOWN_TO_POOLERS.has(name)),
      [],
    )
  })

  test('a pooler that drops what it is asked for is refused with the remedy, where that makes a difference', async (t) => {
    const database = await createDatabase(t, { settings: { TimeZone: "'Europe/London'" } })
    await migrate({ database: database.url })
    const { url } = await startPooler(t, (name) => !['user', 'database'].includes(name))
    const usable = createRateLimitClient({ database: url.href, threads: false })
    atEnd(t, () => usable.$disconnect())
    url.pathname = `/${database.name}`
    const client = createRateLimitClient({ database: url.href, threads: false })
    atEnd(t, () => client.$disconnect())
    const refused = {
      code: 'FST_RATE_LIMIT_INVALID_SETTING',
      message: /Setting "database" leads to a session with TimeZone Europe\/London, .*ALTER ROLE … SET$/,
    }

    await assert.rejects(client.rateLimitRule.count(), refused)
    await assert.rejects(client.rateLimitEvent.cleanupOld({ olderThanDays: 1 }), refused)
    assert.deepEqual(await usable.$queryRaw`SELECT 1 AS one`, [{ one: 1 }])
  })

  for (const isolation of ['repeatable read', 'serializable']) {
    test(`many may write one counter at once where transactions are ${isolation}`, async (t) => {
      const { url, schema } = await openDatabase(t, 'postgresql')
      const database = `${url}?options=${encodeURIComponent(`-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`)}`
      const servers = await Promise.all(
        [0, 1, 2].map(() =>
          startApp(t, {
            database: null,
            plugin: { database, schema, logEvents: true, middleware: { backend: 'database', defaultRate: '1000/d' } },
          }),
        ),
      )
      await Promise.all(servers.flatMap(({ statuses }) => [0, 1, 2, 3].map(() => statuses(10, '/'))))

      const [first] = servers
      assert.equal((await first?.request('/'))?.headers['x-ratelimit-remaining'], String(1000 - 121))
      await Promise.all(servers.map(({ app }) => app.smartRateLimit.events.flush()))
      assert.equal((await first?.app.smartRateLimit.analytics.getTrafficSummary())?.total, 121)
      assert.deepEqual(
        servers.flatMap(({ log }) => log),
        [],
      )
    })
  }

  test('a report waits longer than the role lets statements of an app wait', long(), async (t) => {
    const { url, schema, name, sql, lock } = await openNamedPostgresql(t)
    const limited = new URL(url)
    limited.searchParams.set(
      'options',
      '-c statement_timeout=1s -c lock_timeout=500ms -c idle_in_transaction_session_timeout=1s',
    )
    const { app } = await startApp(t, { database: null, plugin: { database: limited.href, schema, logEvents: true } })
    const unlock = await lock('rate_limit_rollup_mark')
    const report = app.smartRateLimit.analytics.getTrafficSummary().then(({ total }) => total, String)
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'
      AND query_start < clock_timestamp() - interval '1500 ms'`
    await eventually('the report has waited', async () => (await sql(waiting, [name])).rows.length > 0)

    await unlock()
    assert.equal(await report, 0)
  })
})
