import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from './clock.js'
import type { Database } from './db/database.js'
import type { EventLogStats } from './events/event-log.js'
import type { Limiter } from './limiter/limiter.js'

/** What this process does, so that the pages can say what there is to switch on. */
export interface Switches {
  readonly enabled: boolean
  readonly logEvents: boolean | 'blocked'
  readonly useDynamicRules: boolean
}

/** Where the staff routes are mounted, as browsers ask for them: each links to the other. Undefined where there are none. */
export interface Places {
  /** Ends with a slash. */
  dashboard?: string
  /** The root path of the admin panel. */
  panel?: string
}

/** What the staff routes need of the plugin they belong to. */
export interface Internals {
  readonly database: Database
  /** Counts what strangers do on the staff pages: in the store, and in memory while that fails. */
  readonly staffLimiter: Limiter
  readonly clock: Clock
  readonly switches: Switches
  readonly places: Places
  /** How the event log of this process does. */
  eventStats(): EventLogStats
  /** The client's address as limits count it: IPv6 by its network. */
  clientAddress(request: FastifyRequest): string
}

const internals = new WeakMap<object, Internals>()

/** @param decoration what the app is decorated with as `smartRateLimit` */
export function attachInternals(decoration: object, its: Internals): void {
  internals.set(decoration, its)
}

/**
 * @param plugin who asks
 * @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents
 */
export function internalsOf(app: FastifyInstance, plugin = 'dashboardPlugin'): Internals {
  const its = app.hasDecorator('smartRateLimit') ? internals.get(app.getDecorator<object>('smartRateLimit')) : undefined
  if (its === undefined) throw new Error(`Register rateLimitPlugin before ${plugin}, on the same app`)
  return its
}
