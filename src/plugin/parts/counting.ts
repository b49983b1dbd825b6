/** The store and the limiters. */
import { openCounting } from '../../limiter/core/counting.js'
import { createStoreLimiter, type StoreLimiterSettings } from '../../limiter/core/store-limiter.js'
import type { Limiter } from '../../limiter/limiter.js'
import { MemoryStore } from '../../limiter/stores/memory/memory-store.js'
import type { Store } from '../../limiter/stores/store.js'
import type { Connections, Host } from './connections.js'
import type { RuleParts } from './rules.js'

export interface CountingParts extends Awaited<ReturnType<typeof openCounters>> {}

export async function openCounters({
  settings,
  components,
  database,
  storeLog,
  current,
}: Host & Connections & RuleParts) {
  const { backend, leaseMs } = settings.middleware
  const counting = { ...settings, backend, leaseMs }
  const { store, limiter } = await openCounting(counting, {
    components,
    log: storeLog,
    database: () => database,
    haveGroups: () => current.lastGood().groups.length > 0,
  })
  const staffLimiter = components.open('limiter of staff pages', createStaffLimiter(counting, store))
  return { store, limiter, staffLimiter }
}

/**
 * Creates the limiter of the staff pages. While the store fails, it counts in memory, whatever `onStoreError` is:
 * password guesses stay limited, and staff are never locked out. The other limiter logs the failure. A memory store is
 * a separate one, since clients that invent keys could evict the counters of the staff pages.
 */
function createStaffLimiter(settings: StoreLimiterSettings, store: Store): Limiter {
  const silent = { error: () => undefined, info: () => undefined }
  const ownStore = store instanceof MemoryStore ? new MemoryStore() : store
  return createStoreLimiter({ ...settings, leaseMs: undefined, onStoreError: 'local' }, ownStore, silent)
}
