import type { Metrics } from './figures.js'
import { openTelemetryMetrics } from './open-telemetry.js'
import { prometheusMetrics } from './prometheus.js'
import type { MetricsOptions } from './targets.js'

/** Returns metrics that pass the same figures to several targets. */
function combineMetrics(all: readonly Metrics[]): Metrics {
  const [first] = all
  if (first !== undefined && all.length === 1) return first
  return {
    count(limit, allowed) {
      for (const each of all) each.count(limit, allowed)
    },
    observe(seconds) {
      for (const each of all) each.observe(seconds)
    },
    join(app) {
      const leave = all.map((each) => each.join(app))
      return () => {
        for (const each of leave) each()
      }
    },
  }
}

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
