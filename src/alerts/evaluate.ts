import { MINUTE_MS } from '../time/clock.js'
import type { Offender } from './offender.js'

/** How long a run may take to tell: longer than any channel does. One that died is over by the next run of a scheduler. */
export const CLAIM_MS = 2 * MINUTE_MS

/** What is remembered of a key. Moments in milliseconds since the epoch. */
export interface KnownAlert {
  readonly key: string
  /** How often it was blocked when that was told. */
  readonly count: number
  /** Null while it is told for the first time, or where that failed. */
  readonly toldMs: number | null
  /** When it was told that the key fell silent; null while it is not silent. */
  readonly resolvedMs: number | null
  /** Until when another run is telling it; null for none. */
  readonly claimedUntilMs: number | null
}

/** What a run found. */
export interface Found {
  readonly offenders: readonly Offender[]
  /** Whether these are all there are: a key that is missing then has fallen silent. */
  readonly isComplete: boolean
  readonly days: number
}

export interface Cooldown {
  readonly cooldownMs: number
  /** Whether it is told when a key fell silent. */
  readonly tellsResolved: boolean
}

/** What a run has to tell. */
export interface Evaluation {
  readonly offenders: readonly Offender[]
  readonly resolved: readonly string[]
  /** How many keys were told, or are told now, and have not fallen silent. */
  readonly remaining: number
}

/** Decides what to tell, by what was told before. */
export function evaluate(
  known: readonly KnownAlert[],
  { offenders, isComplete }: Found,
  { cooldownMs, tellsResolved }: Cooldown,
  nowMs: number,
): Evaluation {
  const byKey = new Map(known.map((alert) => [alert.key, alert]))
  const over = new Set(offenders.map(({ key }) => key))
  const told = offenders.filter((offender) => !isQuiet(byKey.get(offender.key), offender, cooldownMs, nowMs))
  const active = known.filter(({ toldMs, resolvedMs }) => toldMs !== null && resolvedMs === null)
  const resolved =
    tellsResolved && isComplete ? active.filter((alert) => !over.has(alert.key) && !isClaimed(alert, nowMs)) : []
  const remaining = new Set([...active, ...told].map(({ key }) => key))
  for (const { key } of resolved) remaining.delete(key)
  return { offenders: told, resolved: resolved.map(({ key }) => key).sort(), remaining: remaining.size }
}

function isQuiet(
  known: KnownAlert | undefined,
  { blocked_count }: Offender,
  cooldownMs: number,
  nowMs: number,
): boolean {
  if (known === undefined) return false
  if (isClaimed(known, nowMs)) return true
  if (known.toldMs === null || blocked_count >= 2 * known.count) return false
  // A clock that was set back does not keep a key quiet for longer.
  return Math.abs(nowMs - known.toldMs) < cooldownMs
}

function isClaimed({ claimedUntilMs }: KnownAlert, nowMs: number): boolean {
  if (claimedUntilMs === null) return false
  // One that lies far ahead was made by a clock that was wrong.
  return claimedUntilMs > nowMs && claimedUntilMs <= nowMs + 2 * CLAIM_MS
}
