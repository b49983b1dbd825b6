/** What is needed of the objects that a host gives. Their own types are not named, so that nobody has to install them. */

/** A `Registry` of prom-client has all of it. */
export interface PrometheusRegistry {
  getSingleMetric(name: string): object | undefined
  registerMetric(metric: object): void
}

export type OpenTelemetryCallback = (result: {
  observe(value: number, attributes?: Record<string, string>): void
}) => void

export interface OpenTelemetryInstrumentOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: number[] }
}

/** A `Meter` of `@opentelemetry/api` has all of it. */
export interface OpenTelemetryMeter {
  createHistogram(name: string, options?: OpenTelemetryInstrumentOptions): { record(value: number): void }
  createObservableCounter(
    name: string,
    options?: OpenTelemetryInstrumentOptions,
  ): { addCallback(callback: OpenTelemetryCallback): void }
  createObservableGauge(
    name: string,
    options?: OpenTelemetryInstrumentOptions,
  ): { addCallback(callback: OpenTelemetryCallback): void }
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
