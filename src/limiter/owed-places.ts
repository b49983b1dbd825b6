import { type Check, isPlain, isRate, type Settlement } from './algorithm.js'

/** What is beyond is left to its period; each takes about 200 bytes. */
const MAX_OWED = 10_000
/** How many are given back at once, so that checks do not wait long. */
const MAX_SENT = 512

/**
 * Places that a failing store may hold for requests that have ended, or were never admitted. They are given back once it
 * answers again, unless their period has freed them. To give back what was not taken changes nothing. What a store takes
 * after that, for a batch that it had not answered in time, is given back when it does answer.
 */
export class OwedPlaces {
  readonly #untilMs = new Map<Settlement, number>()
  /** What the fallback has decided while the store was not asked, so that it holds nothing. */
  readonly #neverSent = new WeakSet<Check>()
  /** Whose requests hold no places any more. */
  readonly #ended = new WeakSet<Check>()

  /** Notes a check that the store is not asked. */
  noteNotSent(check: Check): void {
    if (!isRate(check.policy)) this.#neverSent.add(check)
  }

  /** Notes checks whose requests have ended, or are refused. */
  noteEnded(checks: readonly Check[]): void {
    for (const check of checks) if (holdsPlaces(check)) this.#ended.add(check)
  }

  /** Keeps what the store may hold of checks whose requests have ended. */
  addEnded(checks: readonly Check[], nowMs: number): void {
    this.add(
      checks.filter((check) => this.#ended.has(check)),
      nowMs,
    )
  }

  /** Keeps what the store may hold. */
  add(checks: readonly Check[], nowMs: number): void {
    for (const check of checks) {
      if (!holdsPlaces(check) || this.#neverSent.has(check)) continue
      if (this.#untilMs.size < MAX_OWED) this.#untilMs.set(check, nowMs + check.policy.periodMs)
    }
  }

  /** Returns what is to be given back now, in batches, and keeps it no longer. */
  take(nowMs: number): Settlement[][] {
    const owed = [...this.#untilMs].filter(([, untilMs]) => untilMs > nowMs).map(([settlement]) => settlement)
    this.#untilMs.clear()
    const batches: Settlement[][] = []
    for (let start = 0; start < owed.length; start += MAX_SENT) batches.push(owed.slice(start, start + MAX_SENT))
    return batches
  }
}

function holdsPlaces(check: Check): check is Settlement {
  return !isRate(check.policy) && isPlain(check.policy) && check.cost > 0
}
