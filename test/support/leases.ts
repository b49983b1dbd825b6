/** Processes that share a store and take shares of its counters, by a clock of the test. */
import type { TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision, Settlement } from '../../src/limiter/algorithm.js'
import type { BatchStore } from '../../src/limiter/batch-store.js'
import { decideWithoutStore } from '../../src/limiter/fallback.js'
import type { Limiter } from '../../src/limiter/limiter.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { type FakeClock, fakeClock } from './clock.js'

export const LEASE_MS = 1_000

/** A store in memory that answers later, as one in a network does, and counts its calls. */
export function remoteStore() {
  const memory = new MemoryStore()
  const store = {
    concurrency: 1,
    calls: 0,
    resetCount: 0,
    failure: undefined as Error | undefined,
    async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
      store.calls++
      if (store.failure !== undefined) throw store.failure
      return memory.check(checks, nowMs)
    },
    async settle(settlements: readonly Settlement[]): Promise<void> {
      store.calls++
      if (store.failure !== undefined) throw store.failure
      memory.settle(settlements)
    },
    async reset(keys: readonly string[]): Promise<void> {
      memory.reset(keys)
      store.resetCount++
    },
    async resets(): Promise<number> {
      return store.resetCount
    },
    /** Returns what the store has counted. */
    counted: ({ key, policy }: Check, nowMs: number) => memory.checkOne({ key, policy, cost: 0 }, nowMs).count,
  }
  return store
}

export interface LeasingProcess {
  readonly clock: FakeClock
  readonly limiter: Limiter
}

/** Starts a process; `sweep` lets the leases of all processes look for shares that have ended. */
export function startProcess(store: BatchStore, nowMs: number): LeasingProcess {
  const clock = fakeClock(nowMs)
  const limiter = createSafeLimiter({
    store,
    lease: { leaseMs: LEASE_MS, now: clock.now },
    fallback: {
      decide: (check) => decideWithoutStore(false, check),
      settle: () => undefined,
      reset: () => undefined,
      resetAll: () => undefined,
    },
    now: clock.now,
    timeoutMs: 10_000,
    log: { error: () => undefined, info: () => undefined },
  })
  return { clock, limiter }
}

/** Replaces the timer of leases, which must be called before a process starts. */
export function controlSweeps({ mock }: TestContext): () => Promise<void> {
  mock.timers.enable({ apis: ['setInterval'] })
  return async function sweep() {
    mock.timers.tick(LEASE_MS / 2)
    for (let turns = 0; turns < 5; turns++) await turn()
  }
}
