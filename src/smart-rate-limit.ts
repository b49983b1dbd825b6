import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Analytics } from './analytics/analytics.js'
import type { RateLimitClient } from './client.js'
import type { Clock } from './clock.js'
import type { Database } from './db/database.js'
import type { EventLogStats } from './events/event-log.js'
import type { Limiter } from './limiter/limiter.js'
import type { Rule } from './rules/rule.js'
import type { Store } from './stores/store.js'

/** What `rateLimitPlugin` decorates an app with. */
export interface SmartRateLimit {
  /** The extended Prisma client. */
  readonly client: RateLimitClient
  readonly rules: {
    /** Drops this process's cache of active rules: the next request reads the table. */
    invalidateCache(): void
    /** Reads the table now and answers how many active rules there are. */
    reload(): Promise<number>
    /** The rules in force, in the order they are tried. */
    active(): Promise<readonly Rule[]>
  }
  readonly analytics: Analytics
  readonly events: {
    /** Resolves when every event recorded so far is in the table, or was counted as lost. */
    flush(): Promise<void>
    stats(): EventLogStats
  }
  readonly store: Store
}

declare module 'fastify' {
  interface FastifyInstance {
    smartRateLimit: SmartRateLimit
  }
  interface FastifyContextConfig {
    /** `false` takes the route out of the limit, the event log and the headers. */
    smartRateLimit?: false
  }
}

/** What the staff routes need of the plugin they belong to. */
export interface Internals {
  readonly database: Database
  /** Counts what strangers do on the staff pages: in the store, and in memory while that fails. */
  readonly staffLimiter: Limiter
  readonly clock: Clock
  /** The client's address as limits count it: IPv6 by its network. */
  clientAddress(request: FastifyRequest): string
}

const internals = new WeakMap<SmartRateLimit, Internals>()

export function attachInternals(decoration: SmartRateLimit, its: Internals): void {
  internals.set(decoration, its)
}

/** @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents */
export function internalsOf(app: FastifyInstance): Internals {
  const its = app.hasDecorator('smartRateLimit') ? internals.get(app.smartRateLimit) : undefined
  if (its === undefined) throw new Error('Register rateLimitPlugin before dashboardPlugin, on the same app')
  return its
}
