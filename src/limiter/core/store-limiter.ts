/** The limiter around a store: of the plugin, of its staff pages, and of `createLimiter`. */
import { type Clock, systemClock } from '../../ground/time/clock.js'
import { Poll } from '../../ground/time/poll.js'
import { fallbackFor, type StoreErrorAction } from '../fallback.js'
import type { Limiter } from '../limiter.js'
import { createSafeLimiter, type SafeLimiterOptions } from '../safe-limiter.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { Store } from '../stores/store.js'
import { validatedStore } from '../validated-store.js'
import type { Backend } from './counting-settings.js'

export interface StoreLimiterSettings {
  readonly backend: Backend
  readonly clock: Clock
  /** How long a process may use a share, in milliseconds; undefined where it takes none. */
  readonly leaseMs: number | undefined
  readonly onStoreError: StoreErrorAction
  readonly storeTimeoutMs: number
}

/** Returns the function that answers whole milliseconds, whatever the host's clock does. */
export function wholeMs(clock: Clock): () => number {
  return clock === systemClock ? systemClock.now : () => Math.floor(clock.now())
}

/** @param haveGroups returns whether requests may have several limits now */
export function createStoreLimiter(
  settings: StoreLimiterSettings,
  store: Store,
  log: SafeLimiterOptions['log'],
  haveGroups?: () => boolean,
): Limiter {
  if (store instanceof MemoryStore) return createMemoryLimiter(store)
  const { backend, clock, leaseMs, onStoreError, storeTimeoutMs: timeoutMs } = settings
  const now = wholeMs(clock)
  const memory = new MemoryStore()
  const fallback = fallbackFor(onStoreError, {
    decide: (check, nowMs) => memory.checkOne(check, nowMs),
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    resetAll: (prefixes) => memory.resetAll(prefixes),
  })
  const limiter: Limiter = createSafeLimiter({
    store: store === backend ? validatedStore(store) : store,
    fallback,
    refusalsPoll: createRefusalsPoll(settings, store, () => limiter.forgetAll()),
    lease: leaseMs === undefined ? undefined : { leaseMs, now },
    givesBack: haveGroups,
    now,
    timeoutMs,
    log,
  })
  return limiter
}

/** Creates the limiter of a store that answers at once and never fails: it needs no wrapper. */
function createMemoryLimiter(store: MemoryStore): Limiter {
  const check: Limiter['check'] = store.checkOne.bind(store)
  return {
    check,
    charge: (check, nowMs) => store.checkOne({ ...check, charges: true }, nowMs),
    madeByFallback: () => false,
    remembered: () => undefined,
    decideLocally: (check, nowMs) => store.checkExisting(check, nowMs),
    settle: (settlement) => store.settle([settlement]),
    giveBack: (settlements) => store.settle(settlements),
    refund: async (settlement) => store.settle([settlement]),
    checkLeased: check,
    reset: async (keys) => store.reset(keys),
    resetAll: async (prefixes) => store.resetAll(prefixes),
    forgetAll: () => undefined,
    close: () => undefined,
    storeIsDown: false,
    storeErrors: 0,
    owedCharges: 0,
    lostCharges: 0,
    owedRefunds: 0,
    lostRefunds: 0,
  }
}

/** Creates the poll by which a process notices that another one reset a counter. */
function createRefusalsPoll(
  { clock, storeTimeoutMs }: StoreLimiterSettings,
  store: Store,
  changed: () => void,
): Poll | undefined {
  const { resets } = store
  if (resets === undefined) return undefined
  let previous: number | undefined
  async function look(): Promise<void> {
    const counted = await resets?.call(store)
    if (counted !== previous) changed()
    previous = counted
  }
  return new Poll({ look, now: () => clock.now(), timeoutMs: storeTimeoutMs })
}
