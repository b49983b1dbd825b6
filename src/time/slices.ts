import { setImmediate } from 'node:timers/promises'

/** Long enough that the pauses cost nothing, short enough that no request notices, in milliseconds. */
const SLICE_MS = 8

/** Work of many small steps that lets the rest of the event loop run in between: `if (slices.over()) await slices.pause()`. */
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
