/** Exports to a registry of prom-client. Only this module loads prom-client, an optional peer. */
import { InvalidSettingError, unloadablePeer } from '../../ground/errors.js'
import { DecisionTally } from './decision-tally.js'
import type { Metrics } from './figures.js'
import {
  DECISION_LABELS,
  DECISIONS,
  DURATION,
  DURATION_BUCKETS,
  type Instrument,
  prometheusName,
  READINGS,
} from './instruments.js'
import { SharedReadings } from './shared-readings.js'
import type { PrometheusRegistry } from './targets.js'

interface Exported extends Metrics {
  readonly byName: ReadonlyMap<string, object>
}

/** Apps that share a registry share its metrics: prom-client accepts each name once. */
const exported = new WeakMap<PrometheusRegistry, Exported>()

/**
 * Returns metrics that export to a registry of prom-client.
 *
 * @param option `true` for prom-client's default registry
 * @throws InvalidSettingError when prom-client is not installed, or the registry has metrics of these names already
 */
export async function prometheusMetrics(option: true | PrometheusRegistry): Promise<Metrics> {
  const client = await importPromClient()
  const registry: PrometheusRegistry = option === true ? client.register : option
  const metrics = exported.get(registry) ?? createPrometheusMetrics(client)
  exported.set(registry, metrics)
  // The host may have cleared the registry meanwhile.
  for (const [name, metric] of metrics.byName) register(registry, name, metric)
  return metrics
}

type PromClient = Awaited<ReturnType<typeof importPromClient>>

function createPrometheusMetrics({ Counter, Gauge, Histogram }: PromClient): Exported {
  const decisions = new DecisionTally()
  const readings = new SharedReadings()
  const metrics = new Map<string, object>()
  const options = (instrument: Instrument, kind: 'counter' | 'gauge' | 'histogram') => ({
    name: prometheusName(instrument, kind),
    help: instrument.help,
    // An empty list, since prom-client would otherwise use its default registry.
    registers: [],
  })

  const decided = options(DECISIONS, 'counter')
  const counter = new Counter({
    ...decided,
    labelNames: DECISION_LABELS,
    collect() {
      this.reset()
      for (const { labels, value } of decisions.series()) this.inc(labels, value)
    },
  })
  metrics.set(decided.name, counter)

  const took = options(DURATION, 'histogram')
  const histogram = new Histogram({ ...took, buckets: [...DURATION_BUCKETS] })
  metrics.set(took.name, histogram)

  for (const reading of READINGS) {
    const { kind, combine } = reading
    const shown = { ...options(reading, kind), aggregator: combine }
    const metric =
      kind === 'counter'
        ? new Counter({
            ...shown,
            collect() {
              const value = readings.value(reading)
              this.reset()
              if (value === undefined) this.remove()
              else this.inc(value)
            },
          })
        : new Gauge({
            ...shown,
            collect() {
              const value = readings.value(reading)
              if (value === undefined) this.remove()
              else this.set(value)
            },
          })
    metrics.set(shown.name, metric)
  }

  return {
    byName: metrics,
    count: (limit, allowed) => decisions.count(limit, allowed),
    observe: (seconds) => histogram.observe(seconds),
    join: (app) => readings.join(app),
  }
}

function register(registry: PrometheusRegistry, name: string, metric: object): void {
  const there = registry.getSingleMetric(name)
  if (there === metric) return
  if (there !== undefined) {
    throw new InvalidSettingError(
      `Setting "metrics.prometheus" is a registry that already has a metric ${name} from another source: give a separate Registry`,
    )
  }
  registry.registerMetric(metric)
}

async function importPromClient() {
  const { Counter, Gauge, Histogram, register } = await import('prom-client').catch((error: unknown) => {
    throw unloadablePeer({ user: 'Setting "metrics.prometheus"', name: 'prom-client', since: '15' }, error)
  })
  return { Counter, Gauge, Histogram, register }
}
