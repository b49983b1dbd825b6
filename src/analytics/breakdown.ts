/** What of the traffic had something in common. */
export interface TrafficCounts {
  readonly total: number
  readonly blocked: number
  /** Let through by a limit that does not block, though they were over. */
  readonly would_block: number
}

export interface Share extends TrafficCounts {
  /** A rule (empty: none matched), a path or a method. */
  readonly name: string
}

/** The traffic by rule, path or method: the busiest, and the rest in one. */
export interface Breakdown {
  /** Most requests first, then by name; at most 20. */
  readonly shares: readonly Share[]
  /** All that is not listed; zeros where everything is. */
  readonly other: TrafficCounts
}
