/** Exports to a meter of OpenTelemetry. Only this module loads @opentelemetry/api, an optional peer. */
import { unloadablePeer } from '../../ground/errors.js'
import { DecisionTally } from './decision-tally.js'
import type { Metrics } from './figures.js'
import { DECISIONS, DURATION, DURATION_BUCKETS, type Instrument, READINGS } from './instruments.js'
import { SharedReadings } from './shared-readings.js'
import type { OpenTelemetryMeter, OpenTelemetryMeterProvider } from './targets.js'

const METER_NAME = 'fastify-smart-ratelimit'

/** Apps that share a provider or a meter share its instruments: otherwise one of two observations would be lost. */
const exported = new WeakMap<OpenTelemetryMeterProvider | OpenTelemetryMeter, Metrics>()

/**
 * Returns metrics that export to a meter of OpenTelemetry.
 *
 * @param option `true` for the global provider, which has to be set already
 * @throws InvalidSettingError when @opentelemetry/api is needed and not installed
 */
export async function openTelemetryMetrics(
  option: true | OpenTelemetryMeterProvider | OpenTelemetryMeter,
): Promise<Metrics> {
  const target = option === true ? await globalProvider() : option
  const metrics =
    exported.get(target) ?? createOpenTelemetryMetrics('getMeter' in target ? target.getMeter(METER_NAME) : target)
  exported.set(target, metrics)
  return metrics
}

function createOpenTelemetryMetrics(meter: OpenTelemetryMeter): Metrics {
  const decisions = new DecisionTally()
  const readings = new SharedReadings()
  meter.createObservableCounter(DECISIONS.name, options(DECISIONS)).addCallback((result) => {
    for (const { labels, value } of decisions.series()) result.observe(value, labels)
  })
  const histogram = meter.createHistogram(DURATION.name, {
    ...options(DURATION),
    advice: { explicitBucketBoundaries: [...DURATION_BUCKETS] },
  })
  for (const reading of READINGS) {
    const create = reading.kind === 'counter' ? 'createObservableCounter' : 'createObservableGauge'
    let wasThere = false
    meter[create](reading.name, options(reading)).addCallback((result) => {
      const value = readings.value(reading)
      wasThere ||= value !== undefined
      // The SDK repeats a figure that is no longer observed, such as an outage during which the app was closed.
      if (wasThere) result.observe(value ?? 0)
    })
  }
  return {
    count: (limit, allowed) => decisions.count(limit, allowed),
    observe: (seconds) => histogram.record(seconds),
    join: (app) => readings.join(app),
  }
}

function options({ help, unit }: Instrument) {
  return { description: help, unit }
}

async function globalProvider(): Promise<OpenTelemetryMeterProvider> {
  const { metrics } = await import('@opentelemetry/api').catch((error: unknown) => {
    throw unloadablePeer({ user: 'Setting "metrics.openTelemetry"', name: '@opentelemetry/api' }, error)
  })
  return metrics.getMeterProvider()
}
