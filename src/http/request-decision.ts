/** The decision about a request as hosts get it: with whom it is about, and what decided. */
import type { LimitClient } from '../clients/limit-client.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import type { Decision, WindowState } from '../limiter/algorithm.js'

/** A limit of a request. Its texts are those of the request's event, spelled alike where nothing is logged. */
export interface RequestLimit {
  /**
   * The policy: a rule's name, a prefix such as `/auth/`, `default`, `override` (bans too), `deny-list`, `ceiling`,
   * `path-length`, the name of a route's limit, or `route`.
   */
  readonly policy: string
  /** The name of the rule; null where the limit is none of a rule. */
  readonly rule: string | null
  /**
   * The counted client, whatever the rule: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`, or `all`. Addresses
   * are as the setting `privacy` has the log, and values of headers as `hashHeaderKeys` has them.
   */
  readonly client: string
  /** The key of the event log: `ip:203.0.113.7`, or with a rule `rule:api:user:7`. */
  readonly key: string
}

export type ShownDecision = Omit<Decision, 'taken' | 'moreMs'>

/** A limit that a request had to pass, and its decision. */
export interface LimitDecision extends RequestLimit {
  /** The decision; null where the limit was not asked, since a refusal by another one was remembered. */
  readonly decision: ShownDecision | null
}

/**
 * The decision about a request: that of the limit that refuses it (of several, the one with the longest wait), else of the
 * one with the smallest share left.
 */
export interface RequestDecision extends ShownDecision, RequestLimit {
  /** All limits of the request: one, unless rules of several groups apply. The ceiling is not among them. */
  readonly limits: readonly LimitDecision[]
}

interface DecidedLimit {
  readonly limit: { readonly policyName: string; readonly ruleName: string }
  readonly client: LimitClient
  readonly decision: Decision
}

/**
 * Returns a decision with its limit and its client, whose texts are cut as those of the log are.
 *
 * @param applied all limits
 * @param notAsked the decision of limits that were not asked
 */
export function toRequestDecision(
  decisive: DecidedLimit,
  applied: readonly DecidedLimit[],
  notAsked: Decision,
): RequestDecision {
  const limits = applied.map((each) =>
    Object.assign(toRequestLimit(each), {
      decision: each.decision === notAsked ? null : toShownDecision(each.decision),
    }),
  )
  // Spread into an object with more fields, these take V8 5 µs.
  return Object.assign(toShownDecision(decisive.decision), toRequestLimit(decisive), { limits })
}

function toRequestLimit({ limit: { policyName, ruleName }, client: { logged, key } }: DecidedLimit): RequestLimit {
  return {
    policy: storable(policyName, MAX_KEY_LENGTH),
    rule: ruleName || null,
    client: storable(logged.text, MAX_KEY_LENGTH),
    key: storable(key, MAX_KEY_LENGTH),
  }
}

/** Leaves out what settlements and headers alone need. */
function toShownDecision(decision: Decision): ShownDecision {
  const { allowed, count, limit, remaining, resetMs, retryAfterMs, unavailable, windows } = decision
  const shown = { allowed, count, limit, remaining, resetMs, retryAfterMs }
  if (unavailable === undefined && windows === undefined) return shown
  return { ...shown, ...(unavailable && { unavailable }), ...(windows && { windows: windows.map(toShownState) }) }
}

function toShownState({ limit, remaining, resetMs, retryAfterMs }: WindowState): WindowState {
  return { limit, remaining, resetMs, retryAfterMs }
}
