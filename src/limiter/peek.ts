/** Asks whether a check would be allowed, without using anything: its cost is charged later, in any case. */
import type { Check, Decision, Policy, Window, WindowState } from './algorithm.js'
import { decideWithoutStore } from './fallback.js'
import { hasLessLeft, shownIndex } from './windows.js'

/**
 * Returns the check of cost 0 that is allowed exactly when the given one would be. Such checks answer for a cost of 1:
 * for a higher one the limits are lower.
 */
export function toPeek({ key, policy, cost }: Check): Check {
  const lowered = cost === 1 ? policy : withLimits(policy, ({ limit }) => Math.max(0, limit - cost + 1))
  return { key, policy: lowered, cost: 0 }
}

/** Returns the decision on a check from the answer to its question. The count is what stands, plus the cost. */
export function toDecision(check: Check, standing: Decision): Decision {
  const { policy, cost } = check
  if (standing.unavailable) return decideWithoutStore(false, check)
  const { allowed, count, retryAfterMs } = standing
  if (policy.windows !== undefined && standing.windows !== undefined) {
    const refusing = allowed ? undefined : Math.max(0, shownIndex(standing, policy))
    const windows = policy.windows.map(({ limit }, index) => {
      if (index === refusing) {
        return { limit, remaining: Math.max(0, limit - count), resetMs: standing.resetMs, retryAfterMs }
      }
      return foretellState(limit, cost, allowed, standing.windows?.[index])
    })
    const decisive = refusing === undefined ? leastLeft(windows) : windows[refusing]
    if (decisive !== undefined) {
      const { limit, remaining, resetMs } = decisive
      const counted = allowed ? limit - remaining : count + cost
      return { allowed, count: counted, limit, remaining, resetMs, retryAfterMs, windows }
    }
  }
  const { limit } = policy
  const remaining = Math.max(0, limit - count - (allowed ? cost : 0))
  return { allowed, count: count + cost, limit, remaining, resetMs: standing.resetMs, retryAfterMs }
}

/** Returns what is left of a window: what the question left, whose limit was lower, without the cost where it is used. */
function foretellState(limit: number, cost: number, allowed: boolean, left: WindowState | undefined): WindowState {
  const { remaining, resetMs, retryAfterMs } = left ?? { remaining: 0, resetMs: 0, retryAfterMs: 0 }
  if (allowed) return { limit, remaining: Math.max(0, remaining - 1), resetMs, retryAfterMs: 0 }
  return { limit, remaining: remaining === 0 ? 0 : remaining + cost - 1, resetMs, retryAfterMs }
}

/** Returns the window with the smallest share left. */
function leastLeft(windows: readonly WindowState[]): WindowState | undefined {
  return windows.reduce<WindowState | undefined>(
    (least, next) => (least === undefined || hasLessLeft(next, least) ? next : least),
    undefined,
  )
}

function withLimits(policy: Policy, limitFor: (window: Window) => number): Policy {
  const { windows } = policy
  const changed = { ...policy, limit: limitFor(policy) }
  if (windows === undefined) return changed
  return { ...changed, windows: windows.map((window) => ({ ...window, limit: limitFor(window) })) }
}

/**
 * Returns a decision for a cost of 1 as it is for another one. The wait is then the longest possible: until nothing is
 * used.
 */
export function forCost(decision: Decision, cost: number): Decision {
  if (cost <= 1 || decision.unavailable) return decision
  const short = (decision.windows ?? [decision]).filter(({ remaining }) => remaining < cost)
  const [longest] = short.toSorted((one, other) => other.resetMs - one.resetMs)
  if (longest === undefined) return decision
  const { limit, remaining, resetMs } = longest
  const isNever = short.some((window) => window.limit < cost)
  return { ...decision, limit, remaining, resetMs, allowed: false, retryAfterMs: isNever ? null : resetMs }
}
