/** Operators watch the limits with Prometheus: what was decided and how fast, the store, the events and the rules. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Counter, Registry, register } from 'prom-client'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { markIncident } from '../../src/rules/history/incident-changes.js'
import { atEnd } from '../support/at-end.js'
import { type AppOptions, okRoutes, openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { decisions, figuresIn, figuresOf } from '../support/exposition.js'
import { long } from '../support/long.js'
import { openNamedPostgresql } from '../support/named-postgresql.js'
import { runApps } from '../support/optional-peers.js'

const WAIT = 'ratelimit_decision_duration_seconds'
const RULES_SHOWN = ['ratelimit_rules_active', 'ratelimit_rules_age_seconds', 'ratelimit_overrides_active']
const INCIDENTS_SHOWN = 'ratelimit_incidents_open'
const EVENTS_SHOWN = [
  'ratelimit_events_written_total',
  'ratelimit_events_dropped_total',
  'ratelimit_events_buffered',
  'ratelimit_events_spooled',
]

test('a route of the host shows decisions by rule, policy, outcome and algorithm', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  await database.client.rateLimitRule.create({
    data: { name: 'writes', pathPattern: '^/w', rate: '1/h', algorithm: 'token_bucket' },
  })
  const { statuses, request } = await startMeasured(t, {
    database,
    plugin: {
      useDynamicRules: true,
      middleware: {
        defaultRate: '3/h',
        rateLimits: { '/auth/': '1/h' },
        algorithm: 'sliding_window',
        denyList: ['203.0.113.66'],
        skipPaths: ['/metrics'],
      },
    },
  })
  await statuses(5, '/')
  await statuses(3, '/w')
  await statuses(2, '/auth/in')
  await statuses(2, '/', { from: '203.0.113.66' })

  const figures = figuresIn((await request('/metrics')).text)

  assert.deepEqual(
    [...figures].filter(([name]) => name.startsWith('ratelimit_decisions_total')),
    [
      [decisions('', 'default', 'allowed', 'sliding_window'), 3],
      [decisions('', 'default', 'blocked', 'sliding_window'), 2],
      [decisions('writes', 'writes', 'allowed', 'token_bucket'), 1],
      [decisions('writes', 'writes', 'blocked', 'token_bucket'), 2],
      [decisions('', '/auth/', 'allowed', 'sliding_window'), 1],
      [decisions('', '/auth/', 'blocked', 'sliding_window'), 1],
      [decisions('', 'deny-list', 'denied'), 2],
    ],
  )
})

test('what a limit with block: false lets through over its limit is would_block, also after it begins to block', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { client } = database
  await client.rateLimitRule.create({ data: { name: 'watch', pathPattern: '^/', rate: '1/h', block: false } })
  const { statuses, registry } = await startMeasured(t, { database, plugin: { useDynamicRules: true } })

  assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
  await client.rateLimitRule.update({ where: { name: 'watch' }, data: { block: true } })
  assert.deepEqual(await statuses(1, '/'), [429])

  const figures = await figuresOf(registry)
  assert.equal(figures.get(decisions('watch', 'watch', 'allowed')), 1)
  assert.equal(figures.get(decisions('watch', 'watch', 'would_block')), 2)
  assert.equal(figures.get(decisions('watch', 'watch', 'blocked')), 1)
})

test('limits of single routes are counted by their names; what is asked in code is not counted', async (t) => {
  const { statuses, registry } = await startMeasured(t, {
    database: null,
    routes: (app) => {
      const { limit, check, peek } = app.smartRateLimit
      const config = { smartRateLimit: false } as const
      app.get('/reports', { config, onRequest: limit({ rate: '1/h', name: 'reports' }) }, async () => 'ok')
      app.get('/asks', { config }, async (request) => [await check(request), await peek(request)])
    },
  })
  await statuses(2, '/reports')
  await statuses(2, '/asks')

  const figures = await figuresOf(registry)
  assert.deepEqual(
    [...figures].filter(([name]) => name.startsWith('ratelimit_decisions_total')),
    [
      [decisions('', 'reports', 'allowed'), 1],
      [decisions('', 'reports', 'blocked'), 1],
    ],
  )
})

test('how long a decision took includes the wait for the store', async (t) => {
  const memory = new MemoryStore()
  const slow: Store = {
    concurrency: 1,
    async check(checks, nowMs) {
      await delay(30)
      return memory.check(checks, nowMs)
    },
    reset: () => undefined,
    close: () => undefined,
  }
  const { statuses, registry } = await startMeasured(t, { database: null, plugin: { middleware: { backend: slow } } })
  await statuses(2, '/')

  const figures = await figuresOf(registry)
  assert.equal(figures.get(`${WAIT}_count`), 2)
  assert.equal(figures.get(`${WAIT}_bucket{le="0.025"}`), 0)
  assert.equal(figures.get(`${WAIT}_bucket{le="+Inf"}`), 2)
  assert.ok((figures.get(`${WAIT}_sum`) ?? 0) >= 0.055)
})

for (const concurrency of [1, Number.POSITIVE_INFINITY]) {
  test(
    `a store that fails counts an error per batch, and the fallback is in force until it is back (concurrency ${concurrency})`,
    long(),
    async (t) => {
      const memory = new MemoryStore()
      let isAway = false
      const store: Store = {
        concurrency,
        check(checks, nowMs) {
          if (isAway) throw new Error('away')
          return memory.check(checks, nowMs)
        },
        reset: () => undefined,
        close: () => undefined,
      }
      const plugin: RateLimitOptions = { onStoreError: 'deny', middleware: { backend: store } }
      const { statuses, registry, clock } = await startMeasured(t, { database: null, plugin })
      const outage = async () => {
        const figures = await figuresOf(registry)
        return ['ratelimit_store_errors_total', 'ratelimit_fallback_active'].map((name) => figures.get(name))
      }

      await statuses(1, '/')
      assert.deepEqual(await outage(), [0, 0])
      isAway = true
      await statuses(1, '/')
      assert.deepEqual(await outage(), [1, 1])
      // One probe a second.
      clock.advance(1_000)
      await statuses(1, '/')
      await eventually('the second error is counted', async () => (await outage())[0] === 2)
      isAway = false
      clock.advance(1_000)
      await statuses(1, '/')
      await eventually('the fallback is no longer in force', async () => (await outage())[1] === 0)

      assert.deepEqual(await outage(), [2, 0])
      const figures = await figuresOf(registry)
      assert.ok((figures.get(decisions('', 'default', 'blocked')) ?? 0) >= 2)
    },
  )
}

test('events are counted as written, dropped, buffered and spooled', long(), async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, statuses, registry } = await startMeasured(t, { database, plugin: { logEvents: true } })
  const events = async () => {
    const figures = await figuresOf(registry)
    return EVENTS_SHOWN.map((name) => figures.get(name))
  }

  await statuses(3, '/')
  await app.smartRateLimit.events.flush()
  assert.deepEqual(await events(), [3, 0, 0, 0])
  await database.log.execute('ALTER TABLE rate_limit_event RENAME TO elsewhere')
  await statuses(2, '/')
  await app.smartRateLimit.events.flush()
  assert.deepEqual(await events(), [3, 0, 2, 0])
})

test('the rules in force, the overrides, and how long ago the rules were read', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { client } = database
  await client.rateLimitRule.create({ data: { name: 'first', pathPattern: '^/', rate: '9/h' } })
  const { app, registry, clock } = await startMeasured(t, { database, plugin: { useDynamicRules: true } })
  const rules = async () => {
    const figures = await figuresOf(registry)
    return RULES_SHOWN.map((name) => figures.get(name))
  }

  clock.advance(7_500)
  assert.deepEqual(await rules(), [1, 7.5, 0])
  await client.rateLimitRule.create({ data: { name: 'second', pathPattern: '^/x', rate: '9/h' } })
  await client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.7', effect: 'deny' } })
  await app.smartRateLimit.rules.reload()
  clock.advance(1_000)
  assert.deepEqual(await rules(), [2, 1, 1])
  clock.advance(-60_000)
  assert.deepEqual(await rules(), [2, 0, 1])
})

test('the age of rules that cannot be read grows, and there is none before they were read', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  await database.database.execute('ALTER TABLE rate_limit_rule RENAME TO elsewhere')
  const { statuses, registry, clock } = await startMeasured(t, { database, plugin: { useDynamicRules: true } })
  const age = async () => (await figuresOf(registry)).get('ratelimit_rules_age_seconds')

  await statuses(1, '/')
  assert.equal(await age(), undefined)
  await database.database.execute('ALTER TABLE elsewhere RENAME TO rate_limit_rule')
  clock.advance(2_000)
  await eventually('the rules are read', async () => {
    await statuses(1, '/')
    return (await age()) === 0
  })
  await database.database.execute('ALTER TABLE rate_limit_rule RENAME TO elsewhere')
  clock.advance(90_000)
  await statuses(2, '/')
  assert.equal(await age(), 90)
})

test('without events and rules there are no figures of them', async (t) => {
  const { registry } = await startMeasured(t, { database: null })
  const names = [...(await figuresOf(registry)).keys()]

  for (const name of [...EVENTS_SHOWN, ...RULES_SHOWN, INCIDENTS_SHOWN]) assert.ok(!names.includes(name), name)
})

test('the first collection after a start has the open incidents; one that somebody acts on is no longer counted', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const plugin = { useDynamicRules: true, logEvents: true, middleware: { defaultRate: '1/h' } }
  const { app, statuses, registry, clock } = await startMeasured(t, { database, plugin })
  const counted = async (of: Registry) => (await figuresOf(of)).get(INCIDENTS_SHOWN)
  assert.equal(await counted(registry), 0)
  await statuses(60, '/')
  await app.smartRateLimit.events.flush()
  const second = await startMeasured(t, { database, plugin, clock })
  assert.equal(await counted(second.registry), 1)

  const [incident] = await app.smartRateLimit.analytics.getIncidents()
  await markIncident(database.database, incident?.scope ?? '', true, clock.now())
  clock.advance(29_000)
  assert.equal(await counted(second.registry), 1)
  clock.advance(1_000)
  for (const of of [registry, second.registry])
    await eventually('it is counted again', async () => (await counted(of)) === 0)
})

test(
  'neither a start nor a collection waits for incidents that are slow to count',
  long(postgresqlMissing),
  async (t) => {
    const { lock, url, schema } = await openNamedPostgresql(t)
    const unlock = await lock('rate_limit_trend')
    const { registry } = await startMeasured(t, { database: null, plugin: { database: url, schema, logEvents: true } })
    assert.equal((await figuresOf(registry)).get(INCIDENTS_SHOWN), undefined)

    await unlock()
    await eventually('they are counted', async () => (await figuresOf(registry)).get(INCIDENTS_SHOWN) === 0)
  },
)

test('nothing that a client writes is in a label', async (t) => {
  const { request, statuses, registry } = await startMeasured(t, {
    database: null,
    plugin: { logEvents: false, middleware: { key: 'header:X-Key', defaultRate: '1/h', rateLimits: { '/a/': '1/h' } } },
  })
  await statuses(1, '/')
  await statuses(1, '/a/')
  const before = [...(await figuresOf(registry)).keys()]

  const hostile = 'evil"} 1 \\n evil{a="b'
  const headers = { 'x-key': hostile, 'user-agent': hostile, host: 'evil', referer: hostile }
  for (let times = 0; times < 3; times++) {
    await request(`/evil%22%7D%0Aevil_metric%201?evil`, { headers, from: '203.0.113.99' })
    await request(`/a/evil`, { headers, from: 'evil' })
    await request('/evil', { headers, method: 'REPORT' })
  }

  const text = await registry.metrics()
  assert.deepEqual([...figuresIn(text).keys()], before)
  assert.doesNotMatch(text, /evil|203\.0\.113/i)
})

test('two apps that share a registry are added up; of one that closes the counters stay, and the rest goes', async (t) => {
  const registry = new Registry()
  const database = await openDatabase(t, 'sqlite')
  const plugin: RateLimitOptions = { logEvents: true, useDynamicRules: true, metrics: { prometheus: registry } }
  const first = await startApp(t, { database, plugin })
  const second = await startApp(t, { database: null, plugin: { metrics: { prometheus: registry } } })
  const shown = async () => {
    const figures = await figuresOf(registry)
    return [decisions('', 'default', 'allowed'), 'ratelimit_events_written_total', 'ratelimit_rules_active'].map(
      (name) => figures.get(name),
    )
  }

  await first.statuses(2, '/')
  await second.statuses(1, '/')
  await first.app.smartRateLimit.events.flush()
  assert.deepEqual(await shown(), [3, 2, 0])
  // Its event is written while the app closes.
  await first.request('/')
  await first.app.close()
  assert.deepEqual(await shown(), [4, 3, undefined])
  await second.statuses(1, '/')
  assert.deepEqual(await shown(), [5, 3, undefined])
  await second.app.close()

  const figures = await figuresOf(registry)
  assert.equal(figures.get('ratelimit_fallback_active'), undefined)
  assert.equal(figures.get('ratelimit_store_errors_total'), 0)
})

test('true is the default registry, and one that the host cleared is filled again by the next app', async (t) => {
  atEnd(t, () => register.clear())
  for (let round = 1; round <= 2; round++) {
    const { app, statuses } = await startApp(t, { database: null, plugin: { metrics: { prometheus: true } } })
    await statuses(1, '/')
    assert.equal((await figuresOf(register)).get(decisions('', 'default', 'allowed')), round)
    await app.close()
    register.clear()
  }
})

test('a registry that writes OpenMetrics shows the same names, and can be shared too', async (t) => {
  const registry = new Registry()
  Reflect.apply(registry.setContentType, registry, [Registry.OPENMETRICS_CONTENT_TYPE])
  for (let round = 1; round <= 2; round++) {
    const { statuses } = await startApp(t, { database: null, plugin: { metrics: { prometheus: registry } } })
    await statuses(1, '/')
    const text = await registry.metrics()
    assert.equal(figuresIn(text).get(decisions('', 'default', 'allowed')), round)
    assert.equal(text.match(/# TYPE ratelimit_decisions counter/g)?.length, 1)
  }
})

test('a registry that already has a metric of the same name is refused at start, with the remedy', async (t) => {
  const registry = new Registry()
  new Counter({ name: 'ratelimit_store_errors_total', help: 'Of the host.', registers: [registry] })

  await assert.rejects(startMeasured(t, { database: null, plugin: { metrics: { prometheus: registry } } }), {
    code: 'FST_RATE_LIMIT_INVALID_SETTING',
    message: /"metrics\.prometheus".*ratelimit_store_errors_total.*separate Registry/,
  })
})

test('an app that is turned off shows nothing, and prometheus: false neither', async (t) => {
  const off = await startMeasured(t, { database: null, plugin: { enabled: false } })
  await startApp(t, { database: null, plugin: { metrics: { prometheus: false } } })

  assert.equal(await off.registry.metrics(), '\n')
})

test(
  'without prom-client everything else works, and metrics that need it are refused at start with the remedy',
  long(),
  async (t) => {
    const middleware = { backend: 'memory' }
    const metrics = { prometheus: true }
    const { stdout } = await runApps(t, [{ middleware }, { middleware, metrics }], 'prom-client')
    const there = await runApps(t, [{ middleware, metrics }])

    assert.match(stdout, /^remaining 99\n.*INVALID_SETTING Setting "metrics\.prometheus".*npm install prom-client/)
    assert.match(there.stdout, /remaining 99/)
  },
)

/** An app that shows its metrics at `/metrics`. */
async function startMeasured(t: TestContext, { plugin = {}, routes = okRoutes, ...options }: AppOptions) {
  const registry = new Registry()
  const app = await startApp(t, {
    ...options,
    plugin: { metrics: { prometheus: registry }, ...plugin },
    routes: async (app) => {
      app.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
      await routes(app)
    },
  })
  return { ...app, registry }
}
