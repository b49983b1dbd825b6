import { combineMetrics, type Metrics } from './metrics.js'
import { openTelemetryMetrics } from './open-telemetry.js'
import { prometheusMetrics } from './prometheus.js'
import type { MetricsOptions } from './targets.js'

/**
 * Opens the targets that the options name; returns undefined where they name none.
 *
 * @throws InvalidSettingError when a required package is not installed
 */
export async function openMetrics({ prometheus, openTelemetry }: MetricsOptions): Promise<Metrics | undefined> {
  const all: Metrics[] = []
  if (prometheus) all.push(await prometheusMetrics(prometheus))
  if (openTelemetry) all.push(await openTelemetryMetrics(openTelemetry))
  return all.length === 0 ? undefined : combineMetrics(all)
}
