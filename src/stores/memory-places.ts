import type { Check, Decision, Settlement } from '../limiter/algorithm.js'
import { type ConcurrencyCounter, checkConcurrency, settleConcurrency } from '../limiter/concurrency.js'
import { Rounds } from '../limiter/rounds.js'

/** How many counters are inspected for each new one: more than one, so that forgotten places do not add up. */
const INSPECTIONS = 2

/**
 * The counters of requests in progress, in process memory. A counter without places does not exist, so that there are
 * never more than requests in progress and places that were not given back within their period. None is evicted: its
 * client could take all places again.
 */
export class MemoryPlaces {
  readonly #counters = new Map<string, ConcurrencyCounter>()
  readonly #next = new Rounds(this.#counters)

  get size(): number {
    return this.#counters.size
  }

  check(check: Check, nowMs: number): Decision {
    const { key } = check
    const before = this.#counters.get(key)
    if (before === undefined) this.#expire(nowMs)
    const { counter, decision } = checkConcurrency(before, check, nowMs)
    this.#keep(key, counter)
    return decision
  }

  settle({ key, place = 0 }: Settlement): void {
    const counter = this.#counters.get(key)
    if (counter !== undefined) this.#keep(key, settleConcurrency(counter, place))
  }

  reset(key: string): void {
    this.#counters.delete(key)
  }

  clear(): void {
    this.#counters.clear()
  }

  #keep(key: string, counter: ConcurrencyCounter): void {
    if (counter.taken.length === 0) this.#counters.delete(key)
    else this.#counters.set(key, counter)
  }

  #expire(nowMs: number): void {
    for (let inspections = INSPECTIONS; inspections > 0; inspections--) {
      const [key, counter] = this.#next.step() ?? []
      if (key !== undefined && (counter?.taken.at(-1)?.untilMs ?? 0) <= nowMs) this.#counters.delete(key)
    }
  }
}
