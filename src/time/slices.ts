import { setImmediate } from 'node:timers/promises'

/** Long enough that the pauses cost nothing, short enough that requests are not delayed, in milliseconds. */
const SLICE_MS = 8

/** Slices work of many small steps, so that the event loop can run: `if (slices.over()) await slices.pause()`. */
export class Slices {
  #endMs = performance.now() + SLICE_MS

  over(): boolean {
    return performance.now() >= this.#endMs
  }

  async pause(): Promise<void> {
    await setImmediate()
    this.#endMs = performance.now() + SLICE_MS
  }
}
