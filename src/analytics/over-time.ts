import type { TrafficCounts } from './breakdown.js'

export interface Bar extends TrafficCounts {
  /** Milliseconds since the epoch: a whole hour, day or week (from Thursday, as the epoch's) in UTC. */
  readonly start_ms: number
}

/** The traffic of a window, bar by bar, without gaps, oldest first. The first bar begins before the window, or with it. */
export interface OverTime {
  /** How long a bar is, in milliseconds: 1 hour, 6 hours, 1 day or 7 days, by the length of the window. */
  readonly bar_ms: number
  readonly bars: readonly Bar[]
}
