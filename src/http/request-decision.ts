/** The decision about a request as hosts get it: with whom it is about, and what decided. */
import type { LimitClient } from '../clients/limit-client.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import type { Decision, WindowState } from '../limiter/algorithm.js'

/** The decision about a request. Its texts are those of the request's event, spelled alike where nothing is logged. */
export interface RequestDecision extends Omit<Decision, 'taken'> {
  /**
   * The policy that decided: a rule's name, a prefix such as `/auth/`, `default`, `override` (bans too), `deny-list`,
   * `ceiling`, `path-length`, the name of a route's limit, or `route`.
   */
  readonly policy: string
  /** The name of the rule that decided; null where none did. */
  readonly rule: string | null
  /**
   * The counted client, whatever the rule: `ip:203.0.113.7`, `user:7`, `header:x-api-key:<value>`, or `all`. Addresses
   * are as the setting `privacy` has the log, and values of headers as `hashHeaderKeys` has them.
   */
  readonly client: string
  /** The key of the event log: `ip:203.0.113.7`, or with a rule `rule:api:user:7`. */
  readonly key: string
}

/** Returns a decision with its limit and its client, whose texts are cut as those of the log are. */
export function toRequestDecision(
  decision: Decision,
  { policyName, ruleName }: { readonly policyName: string; readonly ruleName: string },
  { logged, key }: LimitClient,
): RequestDecision {
  // What was taken of a bucket is for settlements.
  const { taken: _taken, windows, ...shown } = decision
  return {
    ...shown,
    ...(windows && { windows: windows.map(toShownState) }),
    policy: storable(policyName, MAX_KEY_LENGTH),
    rule: ruleName || null,
    client: storable(logged.text, MAX_KEY_LENGTH),
    key: storable(key, MAX_KEY_LENGTH),
  }
}

function toShownState({ limit, remaining, resetMs, retryAfterMs }: WindowState): WindowState {
  return { limit, remaining, resetMs, retryAfterMs }
}
