import type { CountedLimit } from './decision-tally.js'
import { openTelemetryMetrics } from './open-telemetry.js'
import { prometheusMetrics } from './prometheus.js'
import type { AppReadings } from './shared-readings.js'
import type { MetricsOptions } from './targets.js'

/** The target of an app's figures: a registry of prom-client, a meter of OpenTelemetry, or both. */
export interface Metrics {
  /** Counts a decided request. On the hot path. */
  count(limit: CountedLimit, allowed: boolean): void
  /** Records how long a request waited for its counter. On the hot path. */
  observe(seconds: number): void
  /**
   * Adds an app, whose figures are read whenever metrics are collected.
   *
   * @returns a function that removes the app; counters keep their last figure, all other figures disappear
   */
  join(app: AppReadings): () => void
}

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
