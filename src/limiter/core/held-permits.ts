import { randomInt } from 'node:crypto'
import type { Settlement } from '../algorithm.js'
import { CyclicIterator } from '../cyclic-iterator.js'
import type { Limiter } from '../limiter.js'

/** Processes number their permits from a random number below this on, so that no two have an identity in common. */
const FIRST_PERMITS = 2 ** 48 - 1

/** Returns the function that numbers the permits of a process. */
export function numberPermits(): () => number {
  let next = randomInt(FIRST_PERMITS)
  return () => next++
}

/** The number of permits that are inspected for each new one: more than one, so that forgotten ones do not add up. */
const INSPECTIONS = 2

/** The permits that code holds until it releases them, or until their period has freed them. */
export class PermitsOfCode {
  readonly #limiter: Pick<Limiter, 'giveBack'>
  readonly #now: () => number
  readonly #untilMs = new Map<Settlement, number>()
  readonly #oldest = new CyclicIterator(this.#untilMs)

  constructor(limiter: Pick<Limiter, 'giveBack'>, now: () => number) {
    this.#limiter = limiter
    this.#now = now
  }

  hold(taken: Settlement, nowMs: number): void {
    this.#oldest.sweep(INSPECTIONS, (untilMs) => untilMs <= nowMs)
    this.#untilMs.set(taken, nowMs + taken.policy.periodMs)
  }

  /** Gives a permit back before any later check of this process; once. */
  release(taken: Settlement): void {
    if (this.#untilMs.delete(taken)) this.#limiter.giveBack([taken], this.#now())
  }

  /** Gives all permits back. */
  close(): void {
    for (const taken of this.#untilMs.keys()) this.release(taken)
  }
}
