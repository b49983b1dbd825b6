import { METHODS } from 'node:http'
import { MAX_PATH_LENGTH } from '../../ground/storable.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import type { Steps } from '../../ground/time/cooperative-yield.js'
import type { Decision, Policy } from '../../limiter/algorithm.js'
import { refusalPolicy } from '../../rules/ban.js'
import type { Rule } from '../../rules/rule.js'
import type { Recovered, UncoveredReason, UnknownFact } from './clients.js'
import type { LoggedRequest } from './events.js'
import type { OverrideVerdict } from './overrides.js'

/** The counter of one client, as a store in process memory keeps it. */
export interface ReplayCounter {
  check(policy: Policy, cost: number, nowMs: number): Decision
}

/** `takenBy` is a rule of a higher priority that decides instead. */
export type DecidesVerdict = boolean | 'too_long' | UnknownFact | { readonly takenBy: string }

export interface ReplayDependencies {
  readonly rule: Rule
  readonly newCounter: (policy: Policy) => ReplayCounter
  /** Returns the path that rules see for a received one. */
  readonly requestPath: (received: string) => string
  /**
   * Returns whether the rule would have decided a request; what is not known of it where that takes it, and
   * `too_long` where servers would refuse the request, since it takes too much work.
   */
  readonly decides: (event: LoggedRequest, path: string, method: string) => Steps<DecidesVerdict>
  /** Returns what overrides mean for a request that the rule would decide. */
  readonly override: (event: LoggedRequest, path: string) => Steps<OverrideVerdict>
  readonly toClient: (event: LoggedRequest) => Recovered
  /** Returns whether a limit of another group refused a refused request, whatever the rule would have done. */
  readonly isRefusedByOthers: (event: LoggedRequest) => boolean
  readonly sinceMs: number
  readonly untilMs: number
}

/** The counts of one client or one hour. */
export interface Tally {
  matched: number
  overLimit: number
  refusedThen: number
}

interface Client extends Tally {
  readonly counter: ReplayCounter
  /** Counts its refusals, once there are any that may ban it. */
  refusals: ReplayCounter | undefined
  isBanned: boolean
}

/** The most clients kept, which take some 60 MB. Requests of further clients are not covered. */
const MAX_CLIENTS = 250_000
/** The most unknown facts that are named: a condition may read a header of each request's own. */
const MAX_UNKNOWN = 100
/** The length to which the log cuts a method; the methods below are the only ones that it may have cut. */
const MAX_METHOD_LENGTH = 10
const LONG_METHODS = METHODS.filter((method) => method.length > MAX_METHOD_LENGTH)

/** Runs recorded requests through a rule, in order. Those from before the window only warm up its counters. */
export class Replay {
  events = 0
  firstMs: number | null = null
  lastMs: number | null = null
  /** Events that were within their limit; a full log has some. */
  withinLimit = 0
  readonly total: Tally = { matched: 0, overLimit: 0, refusedThen: 0 }
  newlyRefused = 0
  newlyAllowed = 0
  assumedAnonymous = 0
  /** Requests that the rule would decide if no override did. */
  overridden = 0
  assumedFree = 0
  /** Requests that match, by the rule of a higher priority that decides them. */
  readonly taken = new Map<string, number>()
  /** Clients that would have been banned. */
  banned = 0
  readonly uncovered = new Map<UncoveredReason, number>()
  /** What rules read of these requests that is not known. */
  readonly unknown = new Map<string, UnknownFact & { requests: number }>()
  /** Tallies from the hour in which the window begins to the one in which it ends. */
  readonly hours: readonly Tally[]
  readonly clients = new Map<string, Client>()
  readonly #dependencies: ReplayDependencies
  readonly #firstHour: number

  constructor(dependencies: ReplayDependencies) {
    this.#dependencies = dependencies
    this.#firstHour = Math.floor(dependencies.sinceMs / HOUR_MS)
    const length = Math.floor(dependencies.untilMs / HOUR_MS) - this.#firstHour + 1
    this.hours = Array.from({ length }, () => ({ matched: 0, overLimit: 0, refusedThen: 0 }))
  }

  /** Adds the next request, in steps, or all those of a sum at once. */
  *add(event: LoggedRequest): Steps<void> {
    const isCounted = event.timestampMs >= this.#dependencies.sinceMs
    if (isCounted) this.#see(event)
    if (event.isSum || event.path.length >= MAX_PATH_LENGTH) {
      if (isCounted) this.#miss(event.isSum ? 'only_sums' : 'path_cut', 'request.path', requestsOf(event))
      return
    }
    const path = this.#dependencies.requestPath(event.path)
    const decides = yield* this.#dependencies.decides(event, path, wholeMethod(event.method))
    if (decides === false) return
    if (typeof decides === 'object' && 'takenBy' in decides) {
      if (isCounted) this.taken.set(decides.takenBy, (this.taken.get(decides.takenBy) ?? 0) + 1)
      return
    }
    const override = yield* this.#dependencies.override(event, path)
    if (override === 'decides') {
      if (isCounted && decides === true) this.overridden++
      return
    }
    if (decides !== true) {
      if (isCounted) {
        if (decides === 'too_long') this.#miss(decides)
        else this.#miss('condition_not_logged', decides)
      }
      return
    }
    const hour = isCounted ? this.hours[Math.floor(event.timestampMs / HOUR_MS) - this.#firstHour] : undefined
    if (hour !== undefined) this.#match(hour, event)
    const recovered =
      event.outcome === 'denied' ? DENIED : override === 'unclear' ? UNCLEAR : this.#dependencies.toClient(event)
    const client = 'client' in recovered ? this.#client(recovered.client) : undefined
    if (client !== undefined) this.#check(client, event, hour)
    if (hour === undefined) return
    if ('reason' in recovered) this.#miss(recovered.reason, recovered.field)
    else if (client === undefined) this.#miss('too_many_clients')
    else {
      if (recovered.assumed) this.assumedAnonymous++
      if (override === 'assumed_none') this.assumedFree++
    }
  }

  #see(event: LoggedRequest): void {
    const { timestampMs, outcome } = event
    this.events += requestsOf(event)
    this.firstMs ??= timestampMs
    this.lastMs = timestampMs
    if (outcome === 'allowed') this.withinLimit += requestsOf(event)
  }

  #match(hour: Tally, { allowed }: LoggedRequest): void {
    this.total.matched++
    hour.matched++
    if (allowed) return
    this.total.refusedThen++
    hour.refusedThen++
  }

  /** @param missing what is not known, or the field of the rule that the log lacks; undefined where nothing is missing */
  #miss(reason: UncoveredReason, missing?: UnknownFact | string, requests = 1): void {
    this.uncovered.set(reason, (this.uncovered.get(reason) ?? 0) + requests)
    if (missing === undefined) return
    const { rule } = this.#dependencies
    const fact = typeof missing === 'string' ? { rule: rule.name, field: missing, lacks: 'log' as const } : missing
    const name = `${fact.rule}\n${fact.field}`
    const found = this.unknown.get(name)
    if (found !== undefined) found.requests += requests
    else if (this.unknown.size < MAX_UNKNOWN) this.unknown.set(name, { ...fact, requests })
  }

  #client(name: string): Client | undefined {
    let client = this.clients.get(name)
    if (client === undefined && this.clients.size < MAX_CLIENTS) {
      const counter = this.#dependencies.newCounter(this.#dependencies.rule.policy)
      client = { counter, refusals: undefined, isBanned: false, matched: 0, overLimit: 0, refusedThen: 0 }
      this.clients.set(name, client)
    }
    return client
  }

  /** @param hour undefined before the window */
  #check(client: Client, event: LoggedRequest, hour: Tally | undefined): void {
    const { timestampMs, allowed } = event
    const { block } = this.#dependencies.rule
    const isRefusedByOthers = !allowed && this.#dependencies.isRefusedByOthers(event)
    const isOver = !this.#admits(client.counter, timestampMs, isRefusedByOthers)
    const bans = isOver && block && this.#countRefusal(client, timestampMs)
    if (hour === undefined) return
    if (bans && !client.isBanned) {
      client.isBanned = true
      this.banned++
    }
    client.matched++
    if (!allowed) client.refusedThen++
    if (isRefusedByOthers) return
    if (isOver) {
      client.overLimit++
      this.total.overLimit++
      hour.overLimit++
    }
    const refuses = isOver && block
    if (refuses && allowed) this.newlyRefused++
    if (!refuses && !allowed) this.newlyAllowed++
  }

  /** @param isRefused whether another limit refuses: then a limit that would admit the request takes nothing */
  #admits(counter: ReplayCounter, timestampMs: number, isRefused: boolean): boolean {
    const { policy, cost } = this.#dependencies.rule
    if (isRefused) {
      const asked = counter.check(policy, 0, timestampMs)
      if ((asked.windows ?? [asked]).every(({ remaining }) => remaining >= cost)) return true
    }
    return counter.check(policy, cost, timestampMs).allowed
  }

  /** Counts a refusal as servers do. Returns whether it would ban the client. */
  #countRefusal(client: Client, timestampMs: number): boolean {
    const { rule, newCounter } = this.#dependencies
    if (rule.ban === null) return false
    const policy = refusalPolicy(rule.policy, timestampMs)
    client.refusals ??= newCounter(policy)
    return client.refusals.check(policy, 1, timestampMs).count >= rule.ban.after
  }
}

/** Returns the number of requests that are added at once. */
function requestsOf({ isSum, weight }: LoggedRequest): number {
  return isSum ? weight : 1
}

const DENIED: Recovered = { reason: 'deny_list' }
const UNCLEAR: Recovered = { reason: 'override_unclear', field: 'client.ip' }

function wholeMethod(method: string): string {
  if (method.length < MAX_METHOD_LENGTH) return method
  return LONG_METHODS.find((long) => long.startsWith(method)) ?? method
}
