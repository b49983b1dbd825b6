import { inTime } from '../alerts/time-limit.js'
import { lineOf } from '../errors.js'

/** What is looked at, in the order in which it is told. */
export const HEALTH_CHECKS = ['database', 'redis', 'rules', 'events', 'mail', 'schedule'] as const

export type HealthCheckName = (typeof HEALTH_CHECKS)[number]

export interface HealthCheck {
  /** `off`: not used, and so not looked at. */
  readonly status: 'ok' | 'failing' | 'off'
  /** For operators; it names hosts, so that it is not for everybody. */
  readonly detail: string
}

export interface Health {
  /** Whether nothing fails. */
  readonly ok: boolean
  /** Whether nothing fails that requests need: the database, Redis and the rules, as far as they are used. */
  readonly ready: boolean
  readonly checks: Readonly<Record<HealthCheckName, HealthCheck>>
}

/**
 * Probes at one thing, and answers what is to be said of it.
 *
 * @throws whatever says that it fails
 */
export type Probe = () => string | Promise<string>

/** How what is used is probed; what is left out is off. */
export type Probes = Partial<Record<HealthCheckName, Probe>>

const NEEDED: ReadonlySet<HealthCheckName> = new Set(['database', 'redis', 'rules'])
/** Longer than anything takes that is well, in milliseconds. */
const PROBE_TIMEOUT_MS = 5_000

/** Probes at everything at once. Never rejects, and takes no longer than the time limit. */
export async function checkHealth(probes: Probes, timeoutMs = PROBE_TIMEOUT_MS): Promise<Health> {
  const [database, redis, rules, events, mail, schedule] = await Promise.all([
    check(probes.database, timeoutMs),
    check(probes.redis, timeoutMs),
    check(probes.rules, timeoutMs),
    check(probes.events, timeoutMs),
    check(probes.mail, timeoutMs),
    check(probes.schedule, timeoutMs),
  ])
  const checks = { database, redis, rules, events, mail, schedule }
  const failing = HEALTH_CHECKS.filter((name) => checks[name].status === 'failing')
  return { ok: failing.length === 0, ready: !failing.some((name) => NEEDED.has(name)), checks }
}

async function check(probe: Probe | undefined, timeoutMs: number): Promise<HealthCheck> {
  if (probe === undefined) return { status: 'off', detail: 'not used' }
  try {
    return { status: 'ok', detail: await inTime((async () => probe())(), timeoutMs, 'it') }
  } catch (error) {
    return { status: 'failing', detail: lineOf(error) }
  }
}
