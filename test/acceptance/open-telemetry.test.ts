/** Operators watch the limits with OpenTelemetry: the same figures as with Prometheus, under names that become the same. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { Registry } from 'prom-client'
import type { RateLimitOptions, Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { long } from '../support/long.js'
import { runApps } from '../support/optional-peers.js'

test('decisions, their duration, the store, the events and the rules reach the exporter', async (t) => {
  const { provider, collect } = startProvider(t)
  const database = await openDatabase(t, 'sqlite')
  await database.client.rateLimitRule.create({
    data: { name: 'writes', pathPattern: '^/w', rate: '1/h', block: false },
  })
  const { app, statuses, clock } = await startApp(t, {
    database,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      middleware: { defaultRate: '2/h' },
      metrics: { openTelemetry: provider },
    },
  })
  await statuses(3, '/')
  await statuses(2, '/w')
  await app.smartRateLimit.events.flush()
  clock.advance(4_000)

  const collected = await collect()

  const labels = { algorithm: 'fixed_window' }
  assert.deepEqual(pointsOf(collected, 'ratelimit.decisions'), [
    [{ rule: '', policy: 'default', outcome: 'allowed', ...labels }, 2],
    [{ rule: '', policy: 'default', outcome: 'blocked', ...labels }, 1],
    [{ rule: 'writes', policy: 'writes', outcome: 'allowed', ...labels }, 1],
    [{ rule: 'writes', policy: 'writes', outcome: 'would_block', ...labels }, 1],
  ])
  assert.deepEqual(pointsOf(collected, 'ratelimit.store.errors'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.fallback.active'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.events.written'), [[{}, 5]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.events.dropped'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.events.buffered'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.events.spooled'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.rules.active'), [[{}, 1]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.rules.age'), [[{}, 4]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.overrides.active'), [[{}, 0]])
  const [[, duration] = []] = pointsOf(collected, 'ratelimit.decision.duration')
  assert.ok(typeof duration === 'object' && duration !== null && 'count' in duration && 'buckets' in duration)
  assert.equal(duration.count, 5)
  assert.match(JSON.stringify(duration.buckets), /"boundaries":\[0\.0001,0\.00025,.*,1\]/)
})

test('the names become those of Prometheus, with the units that these have', async (t) => {
  const { provider, collect } = startProvider(t)
  const registry = new Registry()
  const plugin: RateLimitOptions = {
    logEvents: true,
    useDynamicRules: true,
    metrics: { prometheus: registry, openTelemetry: provider },
  }
  const { statuses } = await startApp(t, { database: 'sqlite', plugin })
  await statuses(2, '/')
  assert.equal((await collect()).length, 18)

  // As the specification of OpenTelemetry has it (compatibility with Prometheus).
  const renamed = (await collect()).map(({ descriptor: { name, unit }, ...data }) => {
    const suffixes = [unit === 's' ? '_seconds' : '', 'isMonotonic' in data && data.isMonotonic ? '_total' : '']
    return name.replaceAll('.', '_') + suffixes.join('')
  })
  const exposed = (await registry.getMetricsAsJSON()).map(({ name }) => name)
  assert.deepEqual(renamed.sort(), exposed.sort())
  assert.equal(exposed.length, 18)
})

test('a meter will do too, and apps that share one are added up; of those that closed the counts stay', async (t) => {
  const { provider, collect } = startProvider(t)
  const plugin: RateLimitOptions = { metrics: { openTelemetry: provider.getMeter('mine') } }
  const first = await startApp(t, { database: null, plugin })
  const second = await startApp(t, { database: null, plugin })
  await first.statuses(2, '/')
  await second.statuses(1, '/')

  assert.deepEqual(
    pointsOf(await collect(), 'ratelimit.decisions').map(([, value]) => value),
    [3, 0],
  )
  await Promise.all([first.app.close(), second.app.close()])
  const collected = await collect()
  assert.deepEqual(
    pointsOf(collected, 'ratelimit.decisions').map(([, value]) => value),
    [3, 0],
  )
})

test('an app that is closed in an outage leaves no outage behind', async (t) => {
  const { provider, collect } = startProvider(t)
  const backend: Store = {
    concurrency: 1,
    check: () => Promise.reject(new Error('away')),
    reset: () => undefined,
    close: () => undefined,
  }
  const plugin: RateLimitOptions = { metrics: { openTelemetry: provider }, middleware: { backend } }
  const { app, statuses } = await startApp(t, { database: null, plugin })
  await statuses(1, '/')

  assert.deepEqual(pointsOf(await collect(), 'ratelimit.fallback.active'), [[{}, 1]])
  await app.close()
  const collected = await collect()
  assert.deepEqual(pointsOf(collected, 'ratelimit.fallback.active'), [[{}, 0]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.store.errors'), [[{}, 1]])
  assert.deepEqual(pointsOf(collected, 'ratelimit.rules.active'), [])
})

test('true is the global provider', async (t) => {
  const { provider, collect } = startProvider(t)
  metrics.setGlobalMeterProvider(provider)
  atEnd(t, () => metrics.disable())
  const { statuses } = await startApp(t, { database: null, plugin: { metrics: { openTelemetry: true } } })
  await statuses(1, '/')

  assert.equal(pointsOf(await collect(), 'ratelimit.decisions').length, 2)
})

test('without @opentelemetry/api metrics that need it are refused at start with the remedy', long(), async (t) => {
  const settings = { middleware: { backend: 'memory' }, metrics: { openTelemetry: true } }
  const refused = await runApps(t, [settings], '@opentelemetry/api')
  const there = await runApps(t, [settings])

  assert.match(refused.stdout, /INVALID_SETTING Setting "metrics\.openTelemetry".*npm install @opentelemetry\/api/)
  assert.match(there.stdout, /remaining 99/)
})

/** A provider of OpenTelemetry's SDK, and what its exporter gets. */
function startProvider(t: TestContext) {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  atEnd(t, () => provider.shutdown())
  return {
    provider,
    async collect(): Promise<MetricData[]> {
      exporter.reset()
      await provider.forceFlush()
      return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
    },
  }
}

/** The attributes and the values of one instrument. */
function pointsOf(collected: readonly MetricData[], name: string): (readonly [object, unknown])[] {
  return collected
    .filter(({ descriptor }) => descriptor.name === name)
    .flatMap(({ dataPoints }) => dataPoints.map(({ attributes, value }) => [attributes, value] as const))
}
