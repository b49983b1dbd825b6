import type { CountedLimit } from './decision-tally.js'
import type { AppReadings } from './shared-readings.js'

/** Where the figures of an app go: a registry of prom-client, a meter of OpenTelemetry, or both. */
export interface Metrics {
  /** A request was decided. On the hot path. */
  count(limit: CountedLimit, allowed: boolean): void
  /** A request waited so long for its counter. On the hot path. */
  observe(seconds: number): void
  /**
   * Has an app asked for its figures whenever metrics are collected.
   *
   * @returns what ends that; counters stay at their last figure, all else is gone
   */
  join(app: AppReadings): () => void
}

/** The same figures to several places. */
export function together(all: readonly Metrics[]): Metrics {
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
