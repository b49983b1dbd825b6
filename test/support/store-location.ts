import { RedisStore } from '../../src/limiter/stores/redis/redis-store.js'
import { DatabaseStore } from '../../src/limiter/stores/sql/database-store.js'
import type { Store } from '../../src/limiter/stores/store.js'

/** The location of a test's counters; JSON, so that it can be told to other processes. */
export type StoreLocation =
  | { readonly database: string; readonly schema: string; readonly namespace: string }
  | { readonly redis: string; readonly namespace: string }

export function openStore(location: StoreLocation): Store {
  return 'redis' in location ? new RedisStore(location) : new DatabaseStore(location)
}
