import type { Policy } from '../../limiter/algorithm.js'

/** The labels of the limit that decided on a request. */
export interface CountedLimit {
  readonly policy: Policy
  readonly block: boolean
  readonly ruleName: string
  readonly policyName: string
  /** Whether the limit is the deny list, a denying override or a ban, which let nothing through. */
  readonly isDenial: boolean
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

/** The two series of a limit. */
interface LimitSeries {
  readonly within: DecisionSeries
  readonly over: DecisionSeries
}

/** The most limits: each is at least two series in the metrics storage, and operators may have thousands of rules. */
const MAX_LIMITS = 500
/** The common label of all further limits. */
const OTHER = 'other'

/**
 * Counts decisions in process memory until metrics are collected. Counting costs a lookup and an addition, where the
 * counters of metrics libraries would hash their labels for every request.
 */
export class DecisionTally {
  /** An edit of rules creates new limits, which continue the series of the old ones. */
  readonly #byLimit = new WeakMap<CountedLimit, LimitSeries>()
  readonly #series = new Map<string, DecisionSeries>()
  readonly #limitNames = new Set<string>()

  count(limit: CountedLimit, allowed: boolean): void {
    const series = this.#byLimit.get(limit) ?? this.#openSeries(limit)
    if (allowed) series.within.value++
    else series.over.value++
  }

  series(): Iterable<DecisionSeries> {
    return this.#series.values()
  }

  // Opens both at once, so that each starts at 0: without that the first refusal would be no increase.
  #openSeries(limit: CountedLimit): LimitSeries {
    const series = {
      within: this.#open(limit, limit.isDenial ? 'denied' : 'allowed'),
      over: this.#open(limit, overOutcome(limit)),
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

/** Returns the outcome of a request that the limit does not admit. */
function overOutcome({ isDenial, block }: CountedLimit): string {
  if (isDenial) return 'denied'
  return block ? 'blocked' : 'would_block'
}
