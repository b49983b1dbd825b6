import type { Policy } from '../limiter/algorithm.js'

/** What is told of the limit that decided about a request. */
export interface CountedLimit {
  readonly policy: Policy
  readonly block: boolean
  readonly ruleName: string
  readonly policyName: string
}

export interface DecisionSeries {
  readonly labels: {
    readonly rule: string
    readonly policy: string
    readonly outcome: string
    readonly algorithm: string
  }
  value: number
}

/** The two series that a limit counts into. */
interface LimitSeries {
  readonly within: DecisionSeries
  readonly over: DecisionSeries
}

/** Each is at least two series in whatever stores them; operators may have thousands of rules. */
const MAX_LIMITS = 500
/** What the limits beyond them are called together. */
const OTHER = 'other'

/**
 * Counts decisions in process memory, to be read when metrics are collected. Counting costs a lookup and an addition,
 * where the counters of metrics libraries would hash their labels for every request.
 */
export class DecisionTally {
  /** Limits are made anew when rules are edited: the new ones go on with the series of the old. */
  readonly #byLimit = new WeakMap<CountedLimit, LimitSeries>()
  readonly #series = new Map<string, DecisionSeries>()
  readonly #limitNames = new Set<string>()

  count(limit: CountedLimit, allowed: boolean): void {
    const series = this.#byLimit.get(limit) ?? this.#seriesOf(limit)
    if (allowed) series.within.value++
    else series.over.value++
  }

  series(): Iterable<DecisionSeries> {
    return this.#series.values()
  }

  // Both at once, and so with a 0, without which the first refusal would be no increase.
  #seriesOf(limit: CountedLimit): LimitSeries {
    const series = {
      within: this.#open(limit, 'allowed'),
      over: this.#open(limit, limit.block ? 'blocked' : 'would_block'),
    }
    this.#byLimit.set(limit, series)
    return series
  }

  #open({ ruleName, policyName, policy: { algorithm } }: CountedLimit, outcome: string): DecisionSeries {
    const isNamed = this.#admits(JSON.stringify([ruleName, policyName]))
    const labels = { rule: isNamed ? ruleName : OTHER, policy: isNamed ? policyName : OTHER, outcome, algorithm }
    const key = JSON.stringify(labels)
    let series = this.#series.get(key)
    if (series === undefined) {
      series = { labels, value: 0 }
      this.#series.set(key, series)
    }
    return series
  }

  #admits(limitName: string): boolean {
    if (this.#limitNames.has(limitName)) return true
    if (this.#limitNames.size >= MAX_LIMITS) return false
    this.#limitNames.add(limitName)
    return true
  }
}
