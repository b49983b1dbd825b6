import { setTimeout as delay } from 'node:timers/promises'

/** Runs a step at once and then again after each pause, until the signal. The step under way ends first. */
export async function follow(signal: AbortSignal, pauseMs: number, step: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await step()
    // An aborted pause rejects.
    await delay(pauseMs, undefined, { signal }).catch(() => undefined)
  }
}
