/** A client that had used more than 80 % of a limit and was let through. */
export interface NearLimitClient {
  readonly key: string
  /** Empty when no rule matched. */
  readonly rule_name: string
  /** The most it had used, as a share of the limit: above 0.8, at most 1. */
  readonly usage: number
  /** How many of its requests were that near. */
  readonly requests: number
}

/** Who is near a limit now: among the latest 5,000 requests of the last hour. */
export interface NearLimit {
  /** The nearest first; at most 20. */
  readonly clients: readonly NearLimitClient[]
  /** When the oldest of the requests looked at was, in milliseconds since the epoch; null where there was none. */
  readonly since_ms: number | null
}
