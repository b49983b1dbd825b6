/** The records of a decision, resolved when the plugin is registered: nothing, its event, its count, or both. */

import type { RouteOptions } from 'fastify'
import { isByAddress } from '../../clients/client.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { type AppliedLimit, type CheckedRequest, type Limit, refuses } from '../../http/checked-request.js'
import type { HookDependencies } from '../../http/on-request.js'
import { PostponedRecords, type RecordDecision } from '../../http/postponed-records.js'
import { createReceivedPath } from '../../http/request-path.js'
import { integerUserId } from '../../http/request-user.js'
import { formatAppliedRules } from '../../log/applied-rules.js'
import { isSummed } from '../../log/collapsing-buffer.js'
import type { EventOutcome } from '../../log/event.js'
import type { HookComponents } from './hook-components.js'

type RecordStep = HookDependencies['record']

/** The record steps of the plugin's own check, and of limits for single routes. */
export interface Records {
  /** The step that records; undefined where nothing is recorded. */
  readonly record: RecordStep
  readonly recordRoute: RecordStep
  /** Records where no other limit decides about the request. */
  readonly recordAtOnce: ((checked: CheckedRequest) => void) | undefined
  /** The events that wait for the limits of their requests' routes. */
  readonly postponed?: PostponedRecords
  /** Lets events wait from now on. A limit may be a hook of any route, scope or not-found handler. */
  noteLimit(): void
  /** Notes a route, whose events wait for its hooks at most. */
  noteRoute(route: RouteOptions): void
}

const nothing = () => undefined

/**
 * Creates the record steps. Limits for single routes log no event: that of their request, which is then recorded after
 * its hooks, tells of their refusal.
 */
export function createRecords(components: HookComponents): Records {
  const count = createCount(components)
  const recordEvent = createEventRecord(components)
  if (recordEvent === undefined) {
    return { record: count, recordRoute: count, recordAtOnce: count, noteLimit: nothing, noteRoute: nothing }
  }
  const postponed = new PostponedRecords(recordEvent)
  let haveLimits = false
  return {
    postponed,
    noteLimit() {
      haveLimits = true
    },
    noteRoute: (route) => postponed.noteRoute(route),
    record(checked, reply) {
      count?.(checked)
      if (haveLimits && !checked.isRefused) postponed.add(checked, reply)
      else recordEvent(checked)
    },
    recordAtOnce(checked) {
      count?.(checked)
      recordEvent(checked)
    },
    recordRoute(checked) {
      count?.(checked)
      if (checked.isRefused) postponed.takeOver(checked)
    },
  }
}

function createCount({ metrics }: HookComponents): ((checked: CheckedRequest) => void) | undefined {
  return metrics && (({ limit, decision }) => metrics.count(limit, decision.allowed))
}

function createEventRecord({
  settings: { enabled, logEvents },
  router,
  addresses,
  events,
}: HookComponents): RecordDecision | undefined {
  if (!enabled || logEvents === false) return undefined
  const blockedOnly = logEvents === 'blocked'
  const detail = typeof logEvents === 'object' ? logEvents : undefined
  const receivedPath = createReceivedPath(router)
  const summedPath = createSummedPath()
  return function recordEvent(checked, decided = checked) {
    const { request } = checked
    const { address, loggedClient, told } = decided
    const { limit, client, decision } = told
    if (blockedOnly && decision.allowed) return
    const outcome = outcomeFor(decided)
    // A rule beside which the ceiling is told of has its hit.
    const { applied = told === decided ? undefined : [decided] } = checked
    const rules = applied === undefined ? '' : rulesText(applied, limit)
    if (detail !== undefined && isSummed(detail, outcome)) {
      // Every field by its name: to spread an object into one with more fields takes microseconds.
      events.record({
        timestampMs: checked.nowMs,
        key: '',
        ruleName: limit.ruleName,
        path: summedPath(request.routeOptions.url ?? '', checked.nowMs),
        method: request.method,
        allowed: true,
        count: 0,
        limit: 0,
        ipAddress: null,
        userId: null,
        clientIp: null,
        client: '',
        policy: limit.policyName,
        outcome: 'allowed',
        rules,
      })
      return
    }
    events.record({
      timestampMs: checked.nowMs,
      key: client.key,
      ruleName: limit.ruleName,
      path: receivedPath(request.originalUrl),
      method: request.method,
      allowed: !decided.isRefused,
      count: decision.count,
      limit: decision.limit,
      ipAddress: addresses.peer(request),
      userId: integerUserId(checked.user),
      clientIp: isByAddress(loggedClient.logged) && address.plain !== null ? address.logged : null,
      client: loggedClient.logged.text,
      policy: limit.policyName,
      outcome,
      rules,
    })
  }
}

/** The most route patterns that sums of a minute tell apart. */
const MAX_SUMMED_PATHS = 256

/** Returns a function that returns a route's pattern as the path of a sum; an empty text where a minute has too many. */
function createSummedPath(): (pattern: string, nowMs: number) => string {
  const patterns = new Set<string>()
  let minute = 0
  return function summedPath(pattern, nowMs) {
    const present = Math.floor(nowMs / MINUTE_MS)
    if (present !== minute) {
      patterns.clear()
      minute = present
    }
    if (!patterns.has(pattern)) {
      if (patterns.size === MAX_SUMMED_PATHS) return ''
      patterns.add(pattern)
    }
    return pattern
  }
}

/**
 * Returns the rules of several limits as an event has them; an empty text where the one that decides is the only one.
 *
 * @param decisive the limit that decides
 */
function rulesText(applied: readonly Pick<AppliedLimit, 'limit' | 'decision'>[], decisive: Limit): string {
  const rules = applied.filter(({ limit }) => limit.ruleName !== '')
  if (rules.length === 1 && rules[0]?.limit === decisive) return ''
  return formatAppliedRules(rules.map((each) => ({ name: each.limit.ruleName, isRefused: refuses(each) })))
}

function outcomeFor({ limit, isRefused, decision }: CheckedRequest): EventOutcome {
  if (limit.isDenial) return 'denied'
  if (decision.unavailable) return isRefused ? 'unavailable' : 'allowed'
  return decision.allowed ? 'allowed' : 'over_limit'
}
