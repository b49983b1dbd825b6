import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Database } from './db/database.js'
import type { EventLogStats } from './events/event-log.js'
import type { Limiter } from './limiter/limiter.js'
import type { Clock } from './time/clock.js'

/** The features that are on in this process, so that the pages can name those that are off. */
export interface Switches {
  readonly enabled: boolean
  readonly logEvents: boolean | 'blocked'
  readonly useDynamicRules: boolean
}

/** The paths of the staff routes, as browsers request them: each links to the other. */
export interface Places {
  /** Each ends with a slash. */
  readonly dashboards: string[]
  /** The root paths of admin panels. */
  readonly panels: string[]
}

/** Returns the mount that shares the most leading segments with another one. */
export function nearestMount(mounts: readonly string[], own: string): string | undefined {
  const segments = own.split('/')
  const shared = (mount: string) => {
    const theirs = mount.split('/')
    const apart = segments.findIndex((segment, place) => segment !== theirs[place])
    return apart === -1 ? segments.length : apart
  }
  return mounts.toSorted((one, other) => shared(other) - shared(one))[0]
}

/** The parts of the plugin that the staff routes need. */
export interface Internals {
  readonly database: Database
  /** Counts requests without sign-in on the staff pages: in the store, and in memory while that fails. */
  readonly staffLimiter: Limiter
  readonly clock: Clock
  readonly switches: Switches
  readonly places: Places
  /** Returns the state of this process's event log. */
  eventStats(): EventLogStats
  /** Returns whether a rule, or the limit without a rule, counts by user; false for a rule that is not in force. */
  countsByUser(ruleName: string | undefined): boolean
  /** Returns the client's address as limits count it: IPv6 by its network. */
  clientAddress(request: FastifyRequest): string
}

const internals = new WeakMap<object, Internals>()

/** @param decoration the app's decoration `smartRateLimit` */
export function attachInternals(decoration: object, its: Internals): void {
  internals.set(decoration, its)
}

/**
 * @param plugin the plugin that asks
 * @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents
 */
export function internalsFor(app: FastifyInstance, plugin = 'dashboardPlugin'): Internals {
  const its = app.hasDecorator('smartRateLimit') ? internals.get(app.smartRateLimit) : undefined
  if (its === undefined) throw new Error(`Register rateLimitPlugin before ${plugin}, on the same app`)
  return its
}
