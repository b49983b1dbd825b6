import { setImmediate } from 'node:timers/promises'

/**
 * The slice is long enough that the pauses cost nothing, short enough that requests are not delayed, in milliseconds.
 */
const SLICE_MS = 8

/** The last pause of all work: of several that go on at once each has its own turn of the event loop, so that slices do not add up. */
let lastPause: Promise<void> = Promise.resolve()

/** Lets the event loop run between the small steps of long work: `if (slices.over()) await slices.pause()`. */
export class CooperativeYield {
  #endMs = performance.now() + SLICE_MS

  over(): boolean {
    return performance.now() >= this.#endMs
  }

  async pause(): Promise<void> {
    lastPause = lastPause.then(() => setImmediate())
    await lastPause
    this.#endMs = performance.now() + SLICE_MS
  }
}

/** Work in small steps, between which other work may run, as far as the caller lets it. */
export type Steps<Result> = Generator<undefined, Result>

/**
 * Starts a timer for an answer. It runs in two halves, between which the event loop handles what has arrived: a blocked
 * event loop is no outage.
 */
export function patientTimeout(run: () => void, ms: number): NodeJS.Timeout {
  let halves = 2
  const timer = setTimeout(() => {
    if (--halves > 0) timer.refresh()
    else run()
  }, ms / 2)
  return timer
}
