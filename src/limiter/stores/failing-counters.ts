import { createHash } from 'node:crypto'
import type { Check, Decision } from '../algorithm.js'
import { PartlyDecidedError } from '../batch-store.js'

/** Further counters that fail push out the oldest. */
const MAX_FAILING = 1_000

/**
 * The counters of a store that cannot be advanced where others can: a row is locked, or a key has another type. Each of them
 * is a part of the store that fails alone, until it is advanced again.
 */
export class FailingCounters {
  /** What is wrong with each of them, by its stored key. */
  readonly #reasons = new Map<string, string>()
  readonly #storedKey: (key: string) => string

  /** @param storedKey returns the store's name for the counter of a key */
  constructor(storedKey: (key: string) => string) {
    this.#storedKey = storedKey
  }

  /** Returns the name of the part that is a counter which fails; undefined for any other counter. */
  partOf(key: string): string | undefined {
    if (this.#reasons.size === 0) return undefined
    const stored = this.#storedKey(key)
    const reason = this.#reasons.get(stored)
    return reason === undefined ? undefined : `${reason} (${shortHash(stored)})`
  }

  /** @param reason what is wrong with the counter, for the log: `a locked row` */
  add(stored: string, reason: string): void {
    const [oldest] = this.#reasons.keys()
    if (this.#reasons.size >= MAX_FAILING && oldest !== undefined) this.#reasons.delete(oldest)
    this.#reasons.set(stored, reason)
  }

  /** Returns the stored keys of those counters of a batch that failed when they were last met. */
  among(checks: readonly Check[]): string[] {
    if (this.#reasons.size === 0) return []
    return checks.map(({ key }) => this.#storedKey(key)).filter((key) => this.#reasons.has(key))
  }

  /** Returns whether all counters of a batch failed when they were last met, so that its failure is theirs. */
  areAll(checks: readonly Check[]): boolean {
    return this.#reasons.size > 0 && checks.length === this.among(checks).length
  }

  /**
   * Returns the rejection of a batch in which counters have failed.
   *
   * @param areAll what `areAll` answered before the batch
   */
  rejection(checks: readonly Check[], decisions: readonly Decision[], cause: unknown, areAll: boolean): unknown {
    if (areAll) return cause
    return new PartlyDecidedError(
      checks.map((_check, index) => decisions[index]),
      cause,
    )
  }

  /** Notes that the counters of a batch were advanced. */
  advanced(checks: readonly Check[]): void {
    for (const key of this.among(checks)) this.#reasons.delete(key)
  }
}

/** Tells counters apart without their clients, who have no business in the log of an outage. */
function shortHash(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 8)
}
