import type { RedisClient } from '../../database/redis-client.js'
import type { Clock } from '../../ground/time/clock.js'
import type { StoreErrorAction } from '../fallback.js'

/** The options that say where and how is counted: of the plugin, and of `createLimiter`. */
export interface CountingOptions {
  /** Whether limits apply: with `false` nothing is checked, counted or logged. */
  enabled?: boolean | undefined
  /** The answer while the store fails: `local` (count in process memory), `allow`, or `deny` (503). */
  onStoreError?: StoreErrorAction | undefined
  /**
   * The database of the counters: `file:./ratelimit.db`, `postgresql://…`, or a client made by `createRateLimitClient`,
   * which stays open.
   */
  database?: string | object | undefined
  /**
   * The Redis of the counters: `redis://…` or `rediss://…` (several with commas between, or one with `?cluster=true`, for
   * a cluster), or a client or cluster of ioredis, which stays open.
   */
  redis?: string | RedisClient | undefined
  /** The PostgreSQL schema of the tables; `fastify_smart_ratelimit` by default. */
  schema?: string | undefined
  /** Separates the counters of apps that share a database or a Redis. */
  namespace?: string | undefined
  /** The time for which a request waits for the store, in milliseconds; 500 by default. */
  storeTimeoutMs?: number | undefined
  /** The source of time, in milliseconds since the epoch, for tests. */
  clock?: Clock | undefined
}
