/** The shapes of the objects that a host gives. Their own types are not imported: the packages stay optional. */

/** The part of prom-client's `Registry` that is used. */
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

/** The part of a `Meter` of `@opentelemetry/api` that is used. */
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

/** The part of a `MeterProvider` of `@opentelemetry/api` that is used. */
export interface OpenTelemetryMeterProvider {
  getMeter(name: string): OpenTelemetryMeter
}

/** The targets of metrics, at least one: `true` is the default of prom-client, or OpenTelemetry, for the process. */
export interface MetricsOptions {
  /** A `Registry` of prom-client, or `true` for its default one. */
  prometheus?: boolean | PrometheusRegistry | undefined
  /** A `MeterProvider` or a `Meter`, or `true` for the global provider, which has to be there before the plugin. */
  openTelemetry?: boolean | OpenTelemetryMeterProvider | OpenTelemetryMeter | undefined
}
