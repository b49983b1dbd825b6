/** What is needed of the objects that a host gives. Their own types are not named, so that nobody has to install them. */
import { InvalidSettingError } from '../errors.js'

/** A `Registry` of prom-client has all of it. */
export interface PrometheusRegistry {
  getSingleMetric(name: string): object | undefined
  registerMetric(metric: object): void
}

type Callback = (result: { observe(value: number, attributes?: Record<string, string>): void }) => void

interface InstrumentOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: number[] }
}

/** A `Meter` of `@opentelemetry/api` has all of it. */
export interface OpenTelemetryMeter {
  createHistogram(name: string, options?: InstrumentOptions): { record(value: number): void }
  createObservableCounter(name: string, options?: InstrumentOptions): { addCallback(callback: Callback): void }
  createObservableGauge(name: string, options?: InstrumentOptions): { addCallback(callback: Callback): void }
}

/** A `MeterProvider` of `@opentelemetry/api` has all of it. */
export interface OpenTelemetryMeterProvider {
  getMeter(name: string): OpenTelemetryMeter
}

/** Where metrics go: `true` is what prom-client, or OpenTelemetry, has for the whole process. At least one is given. */
export interface MetricsOptions {
  prometheus?: boolean | PrometheusRegistry | undefined
  openTelemetry?: boolean | OpenTelemetryMeterProvider | OpenTelemetryMeter | undefined
}

/** @throws InvalidSettingError for an object that is none of those it is to be */
export function checkTargets({ prometheus, openTelemetry }: MetricsOptions): void {
  if (typeof prometheus === 'object' && !hasAll(prometheus, ['getSingleMetric', 'registerMetric'])) {
    throw wrongObject('metrics.prometheus', 'a Registry of prom-client, or true for its default one')
  }
  const ofMeter = ['createHistogram', 'createObservableCounter', 'createObservableGauge']
  if (typeof openTelemetry === 'object' && !hasAll(openTelemetry, ['getMeter']) && !hasAll(openTelemetry, ofMeter)) {
    throw wrongObject(
      'metrics.openTelemetry',
      'a MeterProvider or a Meter of OpenTelemetry, or true for the global one',
    )
  }
}

function hasAll(object: object, methods: readonly string[]): boolean {
  return methods.every((name) => typeof Reflect.get(object, name) === 'function')
}

function wrongObject(setting: string, wanted: string): Error {
  return new InvalidSettingError(`Setting "${setting}" is an object that is something else: give ${wanted}`)
}
