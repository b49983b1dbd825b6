import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AddressPrivacy } from '../clients/address-privacy.js'
import type { Client } from '../clients/client.js'
import type { Database } from '../database/database.js'
import type { OutageLog } from '../ground/outage-log.js'
import type { Clock } from '../ground/time/clock.js'
import type { CodeLimit } from '../http/code-limits.js'
import type { Consume } from '../http/consume.js'
import type { ExplainOptions, Explanation } from '../http/explain/explain.js'
import type { ExplainedLimit } from '../http/explain/explained-limit.js'
import type { LoggedClient } from '../http/explain/known-client.js'
import type { FindTemplate } from '../http/routes/route-finder.js'
import type { Algorithm } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import type { StoredCounters } from '../limiter/stores/sql/stored-counters.js'
import type { EventDetail } from '../log/collapsing-buffer.js'
import type { EventLogStats } from '../log/event-log-state.js'
import type { UsageLog } from '../log/usage/usage-log.js'
import type { AlertSettings } from '../operations/alerts/channels/channels.js'
import type { NextRun } from '../operations/schedule/schedule-options.js'

/** The features that are on in this process, so that the pages can name those that are off. */
export interface Switches {
  readonly enabled: boolean
  readonly logEvents: boolean | 'blocked' | EventDetail
  readonly useDynamicRules: boolean
}

/** The paths of the staff routes, as browsers request them: each links to the other. */
export interface StaffMounts {
  /** The root paths of dashboards. Each ends with a slash. */
  readonly dashboards: string[]
  /** The root paths of admin panels. */
  readonly panels: string[]
  /** The prefixes of APIs that take tokens. */
  readonly apis: string[]
}

/** Returns the mount that shares the most leading segments with another one. */
export function nearestMount(mounts: readonly string[], path: string): string | undefined {
  const segments = path.split('/')
  const shared = (mount: string) => {
    const theirs = mount.split('/')
    const apart = segments.findIndex((segment, index) => segment !== theirs[index])
    return apart === -1 ? segments.length : apart
  }
  return mounts.toSorted((one, other) => shared(other) - shared(one))[0]
}

/** A limit of the hook. */
export interface NamedLimit {
  /** The rate, such as `100/m`. */
  readonly rate: string
  /** What the rate counts. */
  readonly unit: string
  readonly algorithm: Algorithm
  /** The group of a rule, in which no override replaces it; empty for other limits. */
  readonly group: string
  /** The path pattern of a rule that counts each request once, as an override does; undefined for other limits. */
  readonly pathPattern?: string
}

/** An override that is in force. */
export interface InForce {
  readonly id: number
  /** The client of the override: the one that was asked for, or a network that contains it. */
  readonly client: string
  /** `deny`, `allow`, or a rate. */
  readonly effect: string
  /** The algorithm of a rate; undefined for other effects. */
  readonly algorithm: Algorithm | undefined
  /** Empty: every path. */
  readonly pathPattern: string
  /** The end, in milliseconds since the epoch; null for none. */
  readonly expiresAtMs: number | null
}

/** A job of this process's schedule. */
export interface ScheduledJob {
  /** The name in the database, which other apps do not have. */
  readonly name: string
  readonly nextRun: NextRun
}

/** The parts of the plugin that the staff routes need. */
export interface Internals {
  readonly database: Database
  /** Counts requests without sign-in on the staff pages: in the store, and in memory while that fails. */
  readonly staffLimiter: Limiter
  readonly log: OutageLog
  readonly clock: Clock
  readonly switches: Switches
  /** The way in which addresses are stored; undefined where they are stored in full. */
  readonly privacy: AddressPrivacy | undefined
  /** The number of leading bits of an IPv6 address that make one client. */
  readonly ipv6Subnet: number
  readonly alerts: AlertSettings
  /** The alerts that this process sends by itself; undefined where it does not. */
  readonly alertJob: ScheduledJob | undefined
  readonly mounts: StaffMounts
  /** Closes something when the app closes, within the time that all of the plugin has. */
  closeWithPlugin(name: string, close: () => Promise<void>): void
  /** Returns the state of this process's event log. */
  eventStats(): EventLogStats
  /** Counts the usage of requests; undefined where this process keeps none. */
  readonly usage: UsageLog | undefined
  /** Returns whether a rule, or the limit without a rule, counts by user; false for a rule that is not in force. */
  countsByUser(ruleName: string | undefined): boolean
  /** Returns the limit that events name by its policy; undefined where it has no fixed rate, or is not in force. */
  limitNamed(policy: string): NamedLimit | undefined
  /** Explains a request of the log as `explain` does, and says nothing of counters that may be another client's. */
  explainLogged(options: ExplainOptions, logged: LoggedClient): Promise<Explanation>
  /**
   * Asks what is left to a client of a rule in force, and charges nothing; undefined where the rule counts by something else.
   *
   * @param client as the log has it
   */
  askRule(name: string, client: string): Promise<ExplainedLimit | undefined>
  /**
   * Returns the override that decides about a client's requests, as this process knows it; undefined where none does.
   *
   * @param path as it was received; `/` unless given
   */
  overrideFor(client: string, path?: string): InForce | undefined
  /**
   * Returns the names of the counters that a client may have: those of limits in code, of its overrides, and of the rules in
   * force.
   */
  clientCounters(client: string): Promise<string[]>
  /** The tables of counters; undefined where they are in memory, in Redis or in a store of the host's. */
  readonly counterTables: StoredCounters | undefined
  /** Forgets counters by their names, in the store and in this process. All processes obey within two seconds. */
  resetCounters(names: readonly string[]): Promise<void>
  /** Returns the limits that the app's code sets. */
  codeLimits(): readonly CodeLimit[]
  /** Returns the function that finds the template of a path's route, among the routes that were declared after the plugin. */
  findTemplates(): Promise<FindTemplate>
  /**
   * Returns what decides about requests that the app did not get.
   *
   * @throws InvalidSettingError where the limit without a rule cannot count them
   */
  consumer(): Promise<Consume>
  /** Returns the path that rules see for a received one. */
  routedPath(received: string): string
  /** Returns the client as limits count addresses: IPv6 by its network. */
  countedAddress(request: FastifyRequest): Client
}

const internals = new WeakMap<object, Internals>()

/** @param decoration the app's decoration `smartRateLimit` */
export function attachInternals(decoration: object, attached: Internals): void {
  internals.set(decoration, attached)
}

/** An app of any server, with the decoration of `rateLimitPlugin`. */
export type LimitedApp = Pick<FastifyInstance, 'hasDecorator' | 'smartRateLimit'>

/** @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents */
export function internalsFor(app: LimitedApp): Internals {
  const attached = app.hasDecorator('smartRateLimit') ? internals.get(app.smartRateLimit) : undefined
  if (attached === undefined) throw new Error('Register rateLimitPlugin before, on the same app')
  return attached
}
