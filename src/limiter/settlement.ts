/** Settlements of checks: what stores get to give back. */
import { type Check, type Decision, isRate, type Settlement, type Window, type WindowState } from './algorithm.js'
import { isBucket, TAKEN_MODULUS } from './bucket.js'
import { startOfWindowTo } from './fixed-window.js'
import { windowEndMs, windowStartMs } from './period.js'
import { singlePolicies } from './windows.js'

/** A mark that is so far behind every bucket that nothing is given back. */
const NO_MARK = -TAKEN_MODULUS / 2

/**
 * Returns the settlement that gives back all that a check took.
 *
 * @param nowMs the time that the check was asked with
 */
export function toSettlement(check: Check, decision: Decision, nowMs: number): Settlement {
  const { policy } = check
  if (!isRate(policy)) return check
  const states: readonly (WindowState | undefined)[] = decision.windows ?? [decision]
  const marks = singlePolicies(policy).map((window, index) => {
    const { resetMs = 0, taken = NO_MARK } = states[index] ?? {}
    return isBucket(policy) ? taken : forgottenMs(window, nowMs + resetMs)
  })
  return { ...check, marks, checkedMs: nowMs, decision }
}

/**
 * Returns the settlement that gives back to the windows of a moment, whichever checks took it of them, and no more than they
 * count. Buckets get it back while they drain at the limit of the policy.
 */
export function toRefund(check: Check, nowMs: number): Settlement {
  const marks = singlePolicies(check.policy).map((window) => {
    if (isBucket(window)) return NO_MARK
    // A sliding window forgets a cell with the one after it.
    const laterMs = window.algorithm === 'sliding_window' ? window.periodMs : 0
    return forgottenMs(window, nowMs + 1) + laterMs
  })
  return { ...check, marks, checkedMs: nowMs }
}

/** Returns the time from which a settlement changes nothing, since every window has forgotten the use: of a bucket none. */
export function forgottenAtMs({ policy, marks = [] }: Settlement): number {
  return isBucket(policy) ? Number.POSITIVE_INFINITY : Math.max(...marks)
}

/** Returns the decision that allowed a check as it is when the cost has been given back. */
export function withoutCost(decision: Decision, cost: number): Decision {
  const { count, limit, remaining, windows } = decision
  return {
    ...decision,
    count: Math.max(0, count - cost),
    remaining: Math.min(limit, remaining + cost),
    ...(windows && {
      windows: windows.map((state) => ({ ...state, remaining: Math.min(state.limit, state.remaining + cost) })),
    }),
  }
}

/**
 * Returns the end of the window that a moment is in or ends. A store counts the time to the end from that of the whole
 * batch, which is that of the check, or later.
 */
function forgottenMs({ periodMs }: Pick<Window, 'periodMs'>, momentMs: number): number {
  return windowEndMs(periodMs, windowStartMs(periodMs, momentMs - 1))
}

/**
 * Returns five numbers for each window: how much it gets back, its period, its mark, which of a fixed window is its start,
 * since months differ, and the time and the limit of the check.
 */
export function settledNumbers({ policy, cost, marks = [], checkedMs = 0 }: Settlement): number[] {
  return singlePolicies(policy).flatMap(({ algorithm, periodMs, limit }, index) => {
    const mark = marks[index] ?? NO_MARK
    return [cost, periodMs, algorithm === 'fixed_window' ? startOfWindowTo(periodMs, mark) : mark, checkedMs, limit]
  })
}

/** The number of those numbers. */
export const SETTLED_SIZE = 5
