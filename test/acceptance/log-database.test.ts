/** The event log and usage in a database of their own, beside that of rules and counters, of either kind. */
import '../support/compiled-templates.js'
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import Fastify from 'fastify'
import { adminPlugin } from '../../admin/index.js'
import { apiPlugin } from '../../src/api.js'
import { dashboardPlugin, staffAccounts } from '../../src/dashboard.js'
import type { Database } from '../../src/database/database.js'
import {
  createAnalytics,
  createRateLimitClient,
  type Health,
  type RateLimitOptions,
  rateLimitPlugin,
} from '../../src/index.js'
import { cleanupOldEvents } from '../../src/log/rollups/retention.js'
import { subscriptionOf } from '../../src/operations/alerts/channels/channel.js'
import { createChannels, resolveAlertSettings } from '../../src/operations/alerts/channels/channels.js'
import { Ledger } from '../../src/operations/alerts/ledger.js'
import { resolveSettings } from '../../src/plugin/settings/resolve.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { atEnd } from '../support/at-end.js'
import { type AppOptions, captureLog, type LogLine, okRoutes, openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { type Provider, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { FROM_PANEL, PANEL } from '../support/panel-app.js'
import { ratelimit } from '../support/scripts.js'
import { ACCOUNTS, cookieOf, DASHBOARD, PASSWORD, SECRET } from '../support/staff-app.js'
import { startProxyBefore } from '../support/tcp-proxy.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

const CLIENT = '203.0.113.7'
const LOG_TABLES = [
  'event',
  'event_batch',
  'traffic_rollup',
  'rule_rollup',
  'blocked_rollup',
  'client_rollup',
  'request_rollup',
  'client_key',
  'trend',
  'usage',
]

/** Returns the tables of the log that have rows. */
async function filled({ dialect, query }: Database): Promise<string[]> {
  const names: string[] = []
  for (const name of LOG_TABLES) {
    const rows = await query(`SELECT 1 FROM ${dialect.table(`rate_limit_${name}`)} LIMIT 1`)
    if (rows.length > 0) names.push(name)
  }
  return names
}

/** An app with all that reads the log. The rule `api` allows 2 requests a minute, and there are tokens to be charged. */
async function start(t: TestContext, database: TestDatabase, clock = fakeClock(), plugin: RateLimitOptions = {}) {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET, cookiePath: '/ops' })
  const routes: AppOptions['routes'] = async (app) => {
    okRoutes(app)
    app.get('/charge', async (request) => app.smartRateLimit.charge(request, { tokens: 5 }))
    await app.register(dashboardPlugin, { prefix: '/ops', staff })
    await app.register(adminPlugin, { rootPath: PANEL, staff })
    await app.register(apiPlugin, { prefix: '/api-of-limits' })
  }
  const started = await startApp(t, {
    database,
    clock,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      ruleCacheTimeout: 1,
      middleware: { defaultRate: '50/m' },
      ...plugin,
    },
    fastify: { pluginTimeout: 60_000 },
    routes,
  })
  const token = await addToken(database.database, { name: 'ci', role: 'admin', expiresAtMs: null }, clock.now())
  const signedIn = await started.request(`${DASHBOARD}sign-in`, {
    method: 'POST',
    body: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  const headers = { ...FROM_PANEL, cookie: cookieOf(signedIn.headers) }
  const page = (address: string) => started.request(DASHBOARD + address, { headers })
  async function call(method: string, path: string, json?: unknown) {
    const { status, text } = await started.request(`/api-of-limits${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(json !== undefined && { 'content-type': 'application/json' }) },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    })
    return { status, json: JSON.parse(text) }
  }
  return { ...started, headers, page, call }
}

const PAIRS: readonly (readonly [Provider, Provider])[] = [
  ['sqlite', 'sqlite'],
  ['sqlite', 'postgresql'],
  ['postgresql', 'sqlite'],
  ['postgresql', 'postgresql'],
]

for (const [main, log] of PAIRS) {
  const skip = main === 'sqlite' && log === 'sqlite' ? false : postgresqlMissing
  describe(`rules and counters on ${main}, the log on ${log}`, { skip }, () => {
    async function open(t: TestContext, plugin: RateLimitOptions = {}) {
      const clock = fakeClock()
      const database = await openDatabase(t, main, clock, log)
      return { database, ...(await start(t, database, clock, plugin)) }
    }
    type Opened = Awaited<ReturnType<typeof open>>

    /** Five requests of one client, of which the rule refuses three; and a charge. */
    async function serve({ database, clock, statuses, app }: Opened): Promise<void> {
      await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })
      await app.smartRateLimit.rules.reload()
      clock.advance(60_000)
      assert.deepEqual(await statuses(5, '/api/x', { from: CLIENT }), [200, 200, 429, 429, 429])
      assert.deepEqual(await statuses(1, '/charge', { from: CLIENT }), [200])
      await app.smartRateLimit.events.flush()
    }

    test('events, their sums and usage are there, and rules, counters, history and sessions here', async (t) => {
      const opened = await open(t)
      const { database, app } = opened
      await serve(opened)
      const { analytics, client } = app.smartRateLimit
      assert.deepEqual((await analytics.getUsage({ unit: 'tokens', since: '2026-01-01T00:00Z' })).rows, [
        { client: `ip:${CLIENT}`, amount: 5, requests: 1 },
      ])
      await cleanupOldEvents(database.database, opened.clock, { olderThanDays: 1 })

      assert.deepEqual(await filled(database.database), [])
      const inLog = await filled(database.log)
      assert.ok(inLog.includes('event') && inLog.includes('traffic_rollup') && inLog.includes('usage'), inLog.join())
      const entries = [
        await client.rateLimitRule.count(),
        await client.rateLimitChange.count(),
        (await client.rateLimitCounter.count()) > 0,
      ]
      assert.deepEqual(entries, [1, 1, true])
      for (const table of ['rate_limit_rule', 'rate_limit_change', 'rate_limit_counter', 'rate_limit_token']) {
        const { dialect, query } = database.log
        assert.deepEqual(await query(`SELECT 1 FROM ${dialect.table(table)} LIMIT 1`), [], table)
      }
    })

    test(
      'pages, CSV, API and analytics read both: hits, overrides, history, effects and previews',
      long(),
      async (t) => {
        const opened = await open(t)
        const { app, page, call, clock, database } = opened
        await serve(opened)
        clock.advance(120_000)
        await database.client.rateLimitOverride.create({ data: { client: `ip:${CLIENT}`, effect: '1/m' } })
        await app.smartRateLimit.rules.reload()
        clock.advance(120_000)

        const dashboard = await page('')
        assert.equal(dashboard.status, 200)
        assert.match(dashboard.text, new RegExp(`ip:${CLIENT}`))
        assert.match(dashboard.text, /override/)
        assert.equal((await page('offenders.csv')).text, `key,blocked_count\r\nrule:api:${CLIENT},3\r\n`)
        assert.match((await page('rules.html')).text, /api[\s\S]*>5<[\s\S]*>3</)
        const client = await page(`client.html?client=ip:${CLIENT}`)
        assert.match(client.text, /Its use by day[\s\S]*tokens/)
        assert.match(client.text, /1\/m/)
        assert.match((await page('events.html')).text, /\/api\/x/)
        assert.equal((await page('search.html?q=api')).status, 200)

        assert.equal((await call('GET', '/reports/summary')).json.blocked, 3)
        const detail = (await call('GET', `/reports/client?client=ip:${CLIENT}`)).json
        assert.deepEqual(
          [detail.over_limit, detail.overrides[0]?.effect, detail.history.length, detail.log_since],
          [3, '1/m', 1, undefined],
        )
        const preview = (
          await call('POST', '/rules/preview', { rule: { name: 'api', pathPattern: '^/api/', rate: '1/m' } })
        ).json
        assert.deepEqual([preview.events, preview.matched], [6, 0], 'the override decides the requests of its client')
        const events = (await call('GET', '/events?limit=10')).json
        assert.equal(JSON.stringify(events).match(/"path":"\/api\/x"/g)?.length, 5)

        const { url, events: option, schema } = database
        const beside = createAnalytics({ database: url, events: option, schema, clock })
        assert.deepEqual(await beside.getTopOffenders(), [{ key: `rule:api:${CLIENT}`, blocked_count: 3 }])
        assert.deepEqual(
          (await beside.getClient({ client: `ip:${CLIENT}` })).overrides.map(({ effect }) => effect),
          ['1/m'],
        )
        await beside.close()
      },
    )

    test('the client and the panel reach the log, and a $transaction refuses it by name', async (t) => {
      const opened = await open(t)
      const { app, request, headers, database } = opened
      await serve(opened)
      const { client } = app.smartRateLimit
      assert.equal(await client.rateLimitEvent.count({ where: { allowed: false } }), 3)
      const [latest] = await client.rateLimitEvent.findMany({ take: 1, select: { id: true, path: true } })
      assert.deepEqual([latest?.id, latest?.path], [6, '/charge'])
      const shouting = client.$extends({
        query: {
          rateLimitEvent: { count: async ({ args, query }) => Number(await query(args)) * 100 },
        },
      })
      assert.equal(await shouting.rateLimitEvent.count(), 600)

      const refused =
        /^Error: rateLimitEvent is in a database of its own \((?:file:|postgresql:\/\/\*\*\*@).*\), which no \$transaction of /
      await assert.rejects(
        client.$transaction(async (transaction) => {
          await transaction.rateLimitRule.deleteMany()
          await transaction.rateLimitEvent.deleteMany()
        }),
        refused,
      )
      await assert.rejects(
        client.$transaction([client.rateLimitRule.deleteMany(), client.rateLimitEvent.deleteMany()]),
        refused,
      )
      assert.deepEqual([await client.rateLimitRule.count(), await client.rateLimitEvent.count()], [1, 6])
      await client.$transaction(async (transaction) => transaction.rateLimitRule.updateMany({ data: { rate: '3/m' } }))

      const listed = await request(`${PANEL}/api/resources/events/actions/list?filters.path=/api/x`, { headers })
      const { records } = JSON.parse(listed.text)
      assert.equal(records.length, 5)
      const shown = await request(`${PANEL}/api/resources/events/records/${records[0].id}/show`, { headers })
      assert.equal(JSON.parse(shown.text).record.params.key, `rule:api:${CLIENT}`)
      assert.notEqual(database.log, database.database)
    })

    test('erasure and retention reach both, also the events of before the log got its database', long(), async (t) => {
      const opened = await open(t)
      const { app, clock, database, page, call } = opened
      const { url, schema } = database
      const before = createRateLimitClient({ database: url, schema, clock })
      await logEvents(before, {
        key: `ip:${CLIENT}`,
        client: `ip:${CLIENT}`,
        blocked: 2,
        atMs: clock.now() - 86_400_000,
      })
      await logEvents(before, { key: 'user:7', client: 'user:7', blocked: 2, atMs: clock.now() - 40 * 86_400_000 })
      await serve(opened)
      const summary = await app.smartRateLimit.analytics.getTrafficSummary({ days: 60 })
      assert.deepEqual([summary.total, summary.log_since], [6, '2026-01-14T12:00:00.000Z'])
      assert.match((await page('')).text, /The log begins at <time datetime="2026-01-14T12:00:00.000Z">/)
      assert.equal((await call('GET', '/reports/summary')).json.log_since, '2026-01-14T12:00:00.000Z')

      const progress: number[] = []
      const options = { olderThanDays: 30, onProgress: (deleted: number) => void progress.push(deleted) }
      assert.equal(await app.smartRateLimit.client.rateLimitEvent.cleanupOld({ ...options, dryRun: true }), 2)
      assert.equal(await app.smartRateLimit.client.rateLimitEvent.cleanupOld(options), 2)
      assert.equal(progress.at(-1), 2)
      assert.equal(await before.rateLimitEvent.count(), 2)

      const env = {
        RATELIMIT_DATABASE_URL: url,
        RATELIMIT_EVENTS_DATABASE_URL: database.events?.database ?? '',
        RATELIMIT_SCHEMA: schema,
      }
      const erased = await ratelimit(['erase', '--client', `ip:${CLIENT}`, '--json'], { env })
      assert.deepEqual([erased.status, erased.stderr], [0, ''])
      const { events, usage } = JSON.parse(erased.stdout)
      assert.deepEqual([events, usage], [2 + 6, 2])
      assert.deepEqual(
        [await before.rateLimitEvent.count(), await app.smartRateLimit.client.rateLimitEvent.count()],
        [0, 0],
      )
      await before.$disconnect()
      clock.advance(60_000)
      assert.equal((await app.smartRateLimit.analytics.getTrafficSummary({ days: 60 })).log_since, undefined)
    })

    test('alerts find the log there, and remember here what they told', async (t) => {
      const receiver = await startWebhookReceiver(t)
      const opened = await open(t, { alertThreshold: 3, alertWebhook: receiver.url, alertCooldown: 3600 })
      await serve(opened)
      const { analytics } = opened.app.smartRateLimit
      const first = await analytics.sendOffenderAlerts()
      assert.deepEqual(first.offenders, [{ key: `rule:api:${CLIENT}`, blocked_count: 3 }])
      await analytics.sendOffenderAlerts()
      assert.equal(receiver.posts.length, 1)
      const { dialect, query } = opened.database.database
      assert.equal((await query(`SELECT 1 FROM ${dialect.table('rate_limit_alert')}`)).length, 1)
    })

    test('every command takes both from the environment', long(), async (t) => {
      const opened = await open(t)
      const { database } = opened
      await serve(opened)
      const env = {
        RATELIMIT_DATABASE_URL: database.url,
        RATELIMIT_EVENTS_DATABASE_URL: database.events?.database ?? '',
        RATELIMIT_SCHEMA: database.schema,
      }
      async function run(...args: string[]) {
        const { status, stdout, stderr } = await ratelimit(args, { env })
        assert.deepEqual([status, stderr], [0, ''], args.join(' '))
        return stdout
      }
      assert.match(await run('migrate'), /^(?:Nothing to do: .* is up to date\.\n){2}$/)
      assert.match(
        await run('health'),
        /^ok {7}database {2}.*\n[\s\S]*^ok {7}log {7}.* answers, and is migrated\nok {7}events {4}the last/m,
      )
      const since = ['--since', '2026-01-15', '--until', '2026-01-16']
      assert.match(await run('top', ...since), new RegExp(`ip:${CLIENT} +6 +3`))
      assert.match(await run('tail', '--lines', '3'), /\/charge/)
      assert.match(await run('usage', '--unit', 'tokens', '--month', '2026-01'), new RegExp(`5 +1 +ip:${CLIENT}`))
      assert.match(await run('alerts', '--threshold', '3', ...since, '--dry-run'), new RegExp(`rule:api:${CLIENT}: 3`))
      assert.match(await run('verify-rollups'), /^Counted the events of 1 hour again/)
      assert.match(await run('prune-events', '--older-than-days', '0', '--dry-run'), /Would delete 6 events/)
      assert.match(await run('preview', '--name', 'api', '--rate', '9/m'), /^Rule "api"/)
      if (log === 'postgresql') {
        assert.equal((await run('migrate', '--partitioned')).match(/The event log is partitioned/g)?.length, 1)
        const { dialect, query } = database.log
        assert.equal((await query(`SELECT 1 FROM ${dialect.table('rate_limit_event')}`)).length, 6)
        assert.match(await run('prune-events', '--older-than-days', '0'), /^Deleted 6 events/)
      }
    })
  })
}

describe('while one of two databases is away', { skip: postgresqlMissing }, () => {
  const EVENTS = 'Rate limit events cannot be written, and are kept for now'
  const RULES = 'Rate limit rules and overrides cannot be read: the last good ones stay in force'
  const STORE = 'Rate limit store failed: onStoreError decides until it answers again (tried once a second)'
  const complaints = (lines: readonly LogLine[]) => lines.flatMap(({ level, msg }) => (level > 30 ? [msg] : []))
  const states = ({ ok, ready, checks: { database, rules, log, events } }: Health) => [
    ok,
    ready,
    ...[database, rules, log, events].map(({ status }) => status),
  ]

  /** They need nothing of the log, or only beside what they are for. */
  const PAGES_OF_RULES = ['changes', 'overrides', 'override', 'rule', 'tokens', 'exchange', 'counters', 'alerts'].map(
    (name) => `${name}.html`,
  )
  const WEBHOOK = 'http://127.0.0.1:9/'

  /** Lets the ledger of alerts have an incident, as if the webhook had been told of it. */
  async function tellOfIncident(database: Database, nowMs: number): Promise<void> {
    const clock = fakeClock(nowMs)
    const settings = resolveAlertSettings({ alertThreshold: 3, alertWebhook: WEBHOOK })
    const [watch = ''] = createChannels({ settings, clock }).map((each) => subscriptionOf(each))
    const claim = await new Ledger(database, clock, watch).claim([{ key: 'an-incident', news: 'found' }])
    await claim.settle(true)
  }

  /** Both are of PostgreSQL, each behind a proxy or at a port where nobody listens. */
  async function openBoth(t: TestContext, plugin: RateLimitOptions = {}, isAwayAtStart = false) {
    const clock = fakeClock()
    const database = await openDatabase(t, 'postgresql', clock, 'postgresql')
    const main = await startProxyBefore(t, database.url, 5432)
    const log = await startProxyBefore(t, database.events?.database ?? '', 5432)
    if (isAwayAtStart) await log.proxy.switchOff()
    const client = createRateLimitClient({
      database: main.url,
      events: { database: log.url },
      schema: database.schema,
      clock,
    })
    atEnd(t, () => client.$disconnect())
    const started = await start(t, { ...database, client }, clock, { storeTimeoutMs: 2_000, ...plugin })
    return { ...started, database, main: main.proxy, away: log.proxy }
  }

  for (const isAwayAtStart of [false, true]) {
    test(`requests are limited by the counters and rules while the log is away${isAwayAtStart ? ' at start' : ''}: one line, and no event is lost`, async (t) => {
      const plugin = { alertThreshold: 3, alertWebhook: WEBHOOK }
      const { app, away, database, statuses, log, clock, page } = await openBoth(t, plugin, isAwayAtStart)
      const { events, health } = app.smartRateLimit
      if (!isAwayAtStart) {
        await statuses(1, '/x', { from: '203.0.113.1' })
        await events.flush()
        assert.deepEqual(states(await health()), [true, true, 'ok', 'ok', 'ok', 'ok'])
        await away.switchOff()
      }
      await tellOfIncident(database.database, clock.now())
      await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })
      await app.smartRateLimit.rules.reload()
      assert.deepEqual(await statuses(4, '/api/x', { from: CLIENT }), [200, 200, 429, 429])
      await events.flush()
      assert.deepEqual(states(await health()), [false, true, 'ok', 'ok', 'failing', 'failing'])
      assert.equal((await page('')).status, 503)
      const rules = await page('rules.html')
      assert.equal(rules.status, 200)
      assert.match(rules.text, /api[\s\S]*what rules matched is not known/)
      const about = complaints(log)
      assert.deepEqual(
        about,
        isAwayAtStart
          ? [
              `Rate limit events database: ${log[0]?.err?.message}: events wait in memory, then in eventSpool, until it can be reached`,
              EVENTS,
            ]
          : [EVENTS],
      )
      assert.deepEqual(await statuses(3, '/api/y', { from: '203.0.113.9' }), [200, 200, 429])
      for (const each of PAGES_OF_RULES) assert.equal((await page(each)).status, 200, each)
      assert.match((await page('alerts.html')).text, /An incident: the log does not respond at the moment/)
      const form = await page('rule-form?path=/api/&method=GET')
      assert.deepEqual([form.status, form.headers.location?.includes('pathPattern=')], [302, true])

      await away.switchOn()
      const served = isAwayAtStart ? 7 : 8
      await eventually('all events are written', async () => {
        clock.advance(1_000)
        await events.flush()
        return events.stats().written === served
      })
      assert.deepEqual([events.stats().dropped, await database.client.rateLimitEvent.count()], [0, served])
      assert.deepEqual(states(await health()), [true, true, 'ok', 'ok', 'ok', 'ok'])
    })
  }

  test('events are written while the database of rules and counters is away, and its outage is told once', async (t) => {
    const { app, main, statuses, log, clock, database } = await openBoth(t, { middleware: { defaultRate: '2/m' } })
    const { events, health, analytics } = app.smartRateLimit
    await statuses(1, '/x', { from: CLIENT })
    await main.switchOff()
    const answers = await statuses(6, '/x', { from: CLIENT })
    assert.ok(answers.includes(429), 'this process counts by itself')
    await events.flush()
    assert.equal(await database.client.rateLimitEvent.count(), 7)
    const { ready, checks } = await health()
    assert.deepEqual(
      [ready, checks.database.status, checks.log.status, checks.events.status],
      [false, 'failing', 'ok', 'ok'],
    )
    assert.equal((await analytics.getTrafficSummary()).total, 7)
    const lines = complaints(log)
    assert.ok(
      new Set(lines).size === lines.length && lines.every((line) => [STORE, RULES].includes(line)),
      lines.join('\n'),
    )

    await main.switchOn()
    await eventually('it is over', async () => {
      clock.advance(1_000)
      await statuses(1, '/x', { from: CLIENT })
      return (await health()).ready
    })
  })

  test(
    'with a spool, events that a server could not write are in its log when the next one has started',
    long(),
    async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'ratelimit-log-spool-'))
      atEnd(t, () => rm(folder, { recursive: true, force: true }))
      const first = await openBoth(t, { eventSpool: folder })
      await first.away.switchOff()
      await first.statuses(5, '/x', { from: CLIENT })
      await first.statuses(1, '/charge', { from: CLIENT })
      await first.app.close()
      assert.equal(await first.database.client.rateLimitEvent.count(), 0)
      const { database } = first
      const next = await start(t, database, fakeClock(), { eventSpool: folder })
      await eventually('the spool is written', async () => (await database.client.rateLimitEvent.count()) === 6)
      await next.app.smartRateLimit.events.flush()
      assert.deepEqual(await filled(database.log), ['event', 'event_batch', 'usage'])
      assert.deepEqual(await filled(database.database), [])
      await next.app.close()
    },
  )
})

describe('the setting', () => {
  const register = async (options: RateLimitOptions) => {
    const app = Fastify()
    await app.register(rateLimitPlugin, options)
    await app.ready()
    return app
  }

  test('the variable and the option name the database; the start line says where events are', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-log-setting-'))
    atEnd(t, () => rm(folder, { recursive: true, force: true }))
    const [main, log] = [`file:${folder}/main.db`, `file:${folder}/log.db`]
    const { stream, log: lines } = captureLog()
    const app = Fastify({ logger: { level: 'info', stream } })
    atEnd(t, () => app.close())
    await app.register(rateLimitPlugin, { database: main, events: { database: log }, logEvents: true })
    await app.ready()
    const line = lines.find(({ msg }) => msg.startsWith('Rate limits: '))?.msg ?? ''
    assert.ok(line.includes(`database ${main}, `) && line.includes(`events on in ${log}, `), line)
    const { events } = resolveSettings({}, { RATELIMIT_EVENTS_DATABASE_URL: log })
    assert.deepEqual(events, { database: log })
  })

  test('a server that counts in memory and only logs opens the log alone', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-log-alone-'))
    atEnd(t, () => rm(folder, { recursive: true, force: true }))
    const app = await register({
      database: `file:${folder}/main.db`,
      events: { database: `file:${folder}/log.db` },
      logEvents: true,
      middleware: { backend: 'memory' },
    })
    const { checks } = await app.smartRateLimit.health()
    assert.deepEqual([checks.database.status, checks.log.status], ['off', 'ok'])
    await app.close()
    assert.deepEqual(
      (await readdir(folder)).filter((name) => name.endsWith('.db')),
      ['log.db'],
    )
  })

  test('what is wrong is named by the setting or its variable, without the URL', async (t) => {
    const wrong: readonly (readonly [RateLimitOptions, Readonly<Record<string, string>>, RegExp])[] = [
      [
        { events: { database: 'mysql://u:hunter2@h/x' } },
        {},
        /^Setting "events\.database" is "mysql:\/\/…": give file:/,
      ],
      [
        {},
        { RATELIMIT_EVENTS_DATABASE_URL: 'postgresql://u:hunter2#@h/x' },
        /^Setting "RATELIMIT_EVENTS_DATABASE_URL" is /,
      ],
      [{ events: { url: 'x' } as never }, {}, /^Setting "events\.url" does not exist: give one of database$/],
      [
        { events: 'file:./hunter2.db' as never },
        {},
        /^Setting "events" is not as it has to be: give an object such as \{ database/,
      ],
      [{ events: { database: 7 as never } }, {}, /^Setting "events\.database" is not as it has to be: give a URL/],
    ]
    for (const [options, environment, message] of wrong) {
      assert.throws(
        () => resolveSettings(options, environment),
        (error: Error) => {
          assert.match(error.message, message)
          assert.doesNotMatch(error.message, /hunter2/)
          return true
        },
      )
    }
    const database = await openDatabase(t, 'sqlite')
    await assert.rejects(
      register({ database: database.client, events: { database: 'file:./elsewhere.db' } }),
      /"events\.database" \(RATELIMIT_EVENTS_DATABASE_URL\) is another database than the client in "database" has/,
    )
    await assert.rejects(
      register({ database: database.url, events: { database: 'file:/nowhere/at/all.db' }, logEvents: true }),
      /Setting "events\.database" is file:\/nowhere\/at\/all\.db, which cannot be used/,
    )
  })
})
