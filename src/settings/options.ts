import type { AlertSettingOptions } from '../alerts/alert-settings.js'
import type { RateLimitClient } from '../client.js'
import type { RedisClient } from '../db/redis.js'
import type { HeaderVariant } from '../http/headers.js'
import type { KeyFunction, RateFunction } from '../http/limits.js'
import type { UserOf } from '../http/request-user.js'
import type { Algorithm } from '../limiter/algorithm.js'
import type { StoreErrorAction } from '../limiter/fallback.js'
import type { MetricsOptions } from '../metrics/targets.js'
import type { ScheduleOptions } from '../schedule/schedule-options.js'
import type { Store } from '../stores/store.js'
import type { Clock } from '../time/clock.js'

/** The limit of requests that no rule matches. */
export interface MiddlewareOptions {
  /** Where the counters live; `database` unless given. */
  backend?: 'database' | 'memory' | 'redis' | Store | undefined
  /** A rate string, or what makes one for a request (an empty answer means the default); `100/m` unless given. */
  defaultRate?: string | RateFunction | undefined
  /** Rates by path prefix: `/auth` covers `/auth` and `/auth/…`, `/auth/` covers `/auth/…`; the longest wins. */
  rateLimits?: Record<string, string> | undefined
  algorithm?: Algorithm | undefined
  /** How clients are told apart: `ip` (the default), `user`, `header:<Name>`, or a function; nobody known: the IP. */
  key?: string | KeyFunction | undefined
  /** `false` counts without refusing; `true` unless given. */
  block?: boolean | undefined
  /** Path prefixes that are not limited, as in `rateLimits`. */
  skipPaths?: string[] | undefined
  /** Addresses and CIDR networks that are not limited. */
  allowList?: string[] | undefined
  /** Addresses and CIDR networks that are always refused; it goes before the allow list. */
  denyList?: string[] | undefined
}

/** What `rateLimitPlugin` takes. An option that is absent is read from its environment variable. */
export interface RateLimitOptions extends AlertSettingOptions {
  /** `false` turns the plugin off: nothing is checked, counted or logged. */
  enabled?: boolean | undefined
  /** Logs every checked request, or with `'blocked'` only refusals and would-be refusals; `false` unless given. */
  logEvents?: boolean | 'blocked' | undefined
  /** Whether the rules and overrides of the database apply; without it their tables are never read. */
  useDynamicRules?: boolean | undefined
  /** How long rules are used before the table is read again, in seconds, 0 to 86400; 60 unless given. */
  ruleCacheTimeout?: number | undefined
  middleware?: MiddlewareOptions | undefined
  /** What to do while the store fails: `local` (count in process memory), `allow`, or `deny` (503). */
  onStoreError?: StoreErrorAction | undefined
  /** `file:./ratelimit.db`, `postgresql://…`, or a client made by `createRateLimitClient`. */
  database?: string | RateLimitClient | undefined
  /**
   * `redis://…` or `rediss://…` (several with commas between, or one with `?cluster=true`, for a cluster), or a client
   * or cluster of ioredis, which stays open when the app closes. `middleware.backend: 'redis'` needs it.
   */
  redis?: string | RedisClient | undefined
  /** The PostgreSQL schema of the tables; `fastify_smart_ratelimit` unless given. */
  schema?: string | undefined
  /** Keeps the counters of apps that share a database or a Redis apart. */
  namespace?: string | undefined
  /** With `hashHeaderKeys`: the secret of the HMAC that replaces header values, at least 16 characters. */
  hashSecret?: string | undefined
  /** Whether clients told apart by a header are logged and counted by an HMAC of it, for headers that are secrets. */
  hashHeaderKeys?: boolean | undefined
  /** Who made a request; `request.user` unless given. */
  user?: UserOf | undefined
  /** `preHandler` is for hosts whose users are known only then: 400s and 401s raised before escape the limit. */
  hook?: 'onRequest' | 'preHandler' | undefined
  /** `legacy` (the default): X-RateLimit headers; `draft`: RateLimit and RateLimit-Policy; `both`, or `none`. */
  headers?: HeaderVariant | undefined
  /** How many leading bits of an IPv6 address make one client, 1 to 128; 64 unless given. */
  ipv6Subnet?: number | undefined
  /** How long a request waits for the store, in milliseconds; 500 unless given. */
  storeTimeoutMs?: number | undefined
  /** The most events held back while the database is busy; more are dropped and counted; 10000 unless given. */
  eventBuffer?: number | undefined
  /**
   * Counts decisions, measures how long they take, and tells about the store, the events and the rules:
   * `{ prometheus: register }` or `{ openTelemetry: true }`. Needs prom-client, or @opentelemetry/api. Off unless given.
   */
  metrics?: MetricsOptions | undefined
  /**
   * What this process does by itself, and when: `{ alerts: '0,30 * * * *', pruneEvents: '17 3 * * *' }`. Of several
   * processes with the same schedule one does it.
   */
  schedule?: ScheduleOptions | undefined
  clock?: Clock | undefined
}
