import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Database } from './db/database.js'
import type { EventLogStats } from './events/event-log.js'
import type { Limiter } from './limiter/limiter.js'
import type { Clock } from './time/clock.js'

/** What this process does, so that the pages can say what there is to switch on. */
export interface Switches {
  readonly enabled: boolean
  readonly logEvents: boolean | 'blocked'
  readonly useDynamicRules: boolean
}

/** Where the staff routes are mounted, as browsers ask for them: each links to the other. */
export interface Places {
  /** Each ends with a slash. */
  readonly dashboards: string[]
  /** The root paths of admin panels. */
  readonly panels: string[]
}

/** Of several mounts the one that lies closest to another one: below the most segments that they share. */
export function nearestMount(mounts: readonly string[], own: string): string | undefined {
  const segments = own.split('/')
  const shared = (mount: string) => {
    const theirs = mount.split('/')
    const apart = segments.findIndex((segment, place) => segment !== theirs[place])
    return apart === -1 ? segments.length : apart
  }
  return mounts.toSorted((one, other) => shared(other) - shared(one))[0]
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
  /** Whether a rule, or the limit where no rule matched, tells clients apart by user. Of a rule that is not in force it does not. */
  countsByUser(ruleName: string | undefined): boolean
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
  const its = app.hasDecorator('smartRateLimit') ? internals.get(app.smartRateLimit) : undefined
  if (its === undefined) throw new Error(`Register rateLimitPlugin before ${plugin}, on the same app`)
  return its
}
