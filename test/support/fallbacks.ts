/** What a limiter falls back to when its store fails. */
import { decideWithoutStore, fallbackFor } from '../../src/limiter/fallback.js'
import type { SafeLimiterOptions } from '../../src/limiter/safe-limiter.js'
import type { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'

/** Lets every request pass, and keeps nothing. */
export const PASSES: SafeLimiterOptions['fallback'] = {
  decide: (check) => decideWithoutStore(true, check),
  settle: () => undefined,
  reset: () => undefined,
  resetAll: () => undefined,
}

/** Counts in process memory. */
export function countsIn(local: MemoryStore): SafeLimiterOptions['fallback'] {
  return fallbackFor('local', {
    decide: (check, nowMs) => local.checkOne(check, nowMs),
    settle: (settlements) => local.settle(settlements),
    reset: (keys) => local.reset(keys),
    resetAll: () => undefined,
  })
}
