import { type Metrics, together } from './metrics.js'
import { openTelemetryMetrics } from './open-telemetry.js'
import { prometheusMetrics } from './prometheus.js'
import type { MetricsOptions } from './targets.js'

/**
 * Makes what the options name ready to be exported to; undefined where they name nothing.
 *
 * @throws InvalidSettingError when a package that they need is not installed
 */
export async function openMetrics({ prometheus, openTelemetry }: MetricsOptions): Promise<Metrics | undefined> {
  const all: Metrics[] = []
  if (prometheus) all.push(await prometheusMetrics(prometheus))
  if (openTelemetry) all.push(await openTelemetryMetrics(openTelemetry))
  return all.length === 0 ? undefined : together(all)
}
