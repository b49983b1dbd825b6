import { MINUTE_MS } from '../../ground/time/clock.js'
import type { Offender } from '../../reports/ranking.js'

/** The duration of a claim: longer than any channel takes, and over by the scheduler's next run if its process died. */
export const CLAIM_MS = 2 * MINUTE_MS

/** The stored state of a key. Moments in milliseconds since the epoch. */
export interface StoredAlert {
  readonly key: string
  /** The number of refusals when the key was last reported. */
  readonly count: number
  /** The time of the last report; null until the first one succeeds. */
  readonly notifiedMs: number | null
  /** The time when the key was reported as resolved; null while it is not. */
  readonly resolvedMs: number | null
  /** The time when the claim of a run ends; null for none. */
  readonly claimedUntilMs: number | null
}

/** The offenders that a run found. */
export interface Found {
  readonly offenders: readonly Offender[]
  /** Whether the list is complete: a key that is missing is then resolved. */
  readonly isComplete: boolean
  readonly days: number
}

export interface Cooldown {
  readonly cooldownMs: number
  /** Whether resolved keys are reported. */
  readonly notifiesResolved: boolean
}

/** The keys that a run has to report. */
export interface Evaluation {
  readonly offenders: readonly Offender[]
  readonly resolved: readonly string[]
  /** The number of keys that were reported, now or before, and are not resolved. */
  readonly remaining: number
}

/** Decides which keys to report, by the reports of earlier runs. */
export function evaluate(
  stored: readonly StoredAlert[],
  { offenders, isComplete }: Found,
  { cooldownMs, notifiesResolved }: Cooldown,
  nowMs: number,
): Evaluation {
  const byKey = new Map(stored.map((alert) => [alert.key, alert]))
  const over = new Set(offenders.map(({ key }) => key))
  const due = offenders.filter((offender) => !isQuiet(byKey.get(offender.key), offender, cooldownMs, nowMs))
  const active = stored.filter(({ notifiedMs, resolvedMs }) => notifiedMs !== null && resolvedMs === null)
  const resolved =
    notifiesResolved && isComplete ? active.filter((alert) => !over.has(alert.key) && !isClaimed(alert, nowMs)) : []
  const remaining = new Set([...active, ...due].map(({ key }) => key))
  for (const { key } of resolved) remaining.delete(key)
  return { offenders: due, resolved: resolved.map(({ key }) => key).sort(), remaining: remaining.size }
}

function isQuiet(
  alert: StoredAlert | undefined,
  { blocked_count }: Offender,
  cooldownMs: number,
  nowMs: number,
): boolean {
  if (alert === undefined) return false
  if (isClaimed(alert, nowMs)) return true
  if (alert.notifiedMs === null || blocked_count >= 2 * alert.count) return false
  // A clock that was set back does not extend the cool-down.
  return Math.abs(nowMs - alert.notifiedMs) < cooldownMs
}

function isClaimed({ claimedUntilMs }: StoredAlert, nowMs: number): boolean {
  if (claimedUntilMs === null) return false
  // A claim that ends far ahead was made by a wrong clock.
  return claimedUntilMs > nowMs && claimedUntilMs <= nowMs + 2 * CLAIM_MS
}
