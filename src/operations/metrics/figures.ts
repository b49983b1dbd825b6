import type { CountedLimit } from './decision-tally.js'
import type { AppReadings } from './shared-readings.js'

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
