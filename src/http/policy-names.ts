/** The names of limits and their windows, as answers to clients spell them. */

import { SECOND_MS } from '../ground/time/clock.js'
import { REQUESTS } from '../ground/unit.js'
import { isRate, type NamedWindow, type Policy } from '../limiter/algorithm.js'

/** Returns a limit's name for the draft's fields: a String of RFC 9651, which has printable ASCII only. */
export function quotedName(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]+/gu, (text) => encodeURIComponent(text.toWellFormed()))
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`
}

/**
 * Returns the value of `RateLimit-Policy` for a policy with one window: the quota, its unit, and its window in seconds, which
 * requests in progress do not have.
 */
export function policyField(name: string, policy: Policy, unit: string): string {
  const field = `${quotedName(name)};q=${policy.limit}`
  return isRate(policy)
    ? `${field}${unitParameter(unit)};w=${policy.periodMs / SECOND_MS}`
    : `${field};qu="concurrent-requests"`
}

/** Returns the parameter of a quota's unit, which for requests is left out. */
export function unitParameter(unit: string): string {
  return unit === REQUESTS ? '' : `;qu="${unit}"`
}

/** Returns the names of the windows that a policy lists; that of the limit itself where there is one window. */
export function windowNames(name: string, windows: readonly NamedWindow[] = []): string[] {
  return windows.map(({ period }) => (windows.length === 1 ? name : `${name}:${period}`))
}
