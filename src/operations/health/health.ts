import { errorLine } from '../../ground/errors.js'
import { inTime } from '../alerts/channels/channel.js'
import { CHANNEL_CHECKS } from '../alerts/channels/channels.js'

/** The checks of health, in the order of reports. `log` is the database of the event log, where it is another one. */
export const HEALTH_CHECKS = [
  'database',
  'redis',
  'rules',
  'log',
  'events',
  'usage',
  'charges',
  'lists',
  ...CHANNEL_CHECKS,
  'schedule',
  'geo',
] as const

export type HealthCheckName = (typeof HEALTH_CHECKS)[number]

export interface HealthCheck {
  /** `off`: not used, and so not probed. */
  readonly status: 'ok' | 'failing' | 'off'
  /** The detail is for operators only: it names hosts. */
  readonly detail: string
}

export interface Health {
  /** Whether no check fails. */
  readonly ok: boolean
  /** Whether the parts that requests need work: the database, Redis and the rules, as far as they are used. */
  readonly ready: boolean
  readonly checks: Readonly<Record<HealthCheckName, HealthCheck>>
}

/**
 * Probes one part, and returns its detail.
 *
 * @throws an error when the part fails; its message becomes the detail
 */
export type Probe = () => string | Promise<string>

/** The probes of the parts in use; a part that is left out is off. */
export type Probes = Partial<Record<HealthCheckName, Probe>>

const NEEDED: ReadonlySet<HealthCheckName> = new Set(['database', 'redis', 'rules'])
/** The time-out is longer than any part takes that works, in milliseconds. */
const PROBE_TIMEOUT_MS = 5_000

/** Runs all probes at once. Never rejects, and takes no longer than the time limit. */
export async function probeHealth(probes: Probes, timeoutMs = PROBE_TIMEOUT_MS): Promise<Health> {
  const probed = HEALTH_CHECKS.map(async (name) => [name, await runProbe(probes[name], timeoutMs)] as const)
  // The list has every name once; the compiler cannot follow a loop over it.
  const checks = Object.fromEntries(await Promise.all(probed)) as Record<HealthCheckName, HealthCheck>
  const failing = HEALTH_CHECKS.filter((name) => checks[name].status === 'failing')
  return { ok: failing.length === 0, ready: !failing.some((name) => NEEDED.has(name)), checks }
}

async function runProbe(probe: Probe | undefined, timeoutMs: number): Promise<HealthCheck> {
  if (probe === undefined) return { status: 'off', detail: 'not used' }
  try {
    return { status: 'ok', detail: await inTime((async () => probe())(), timeoutMs, 'it') }
  } catch (error) {
    return { status: 'failing', detail: errorLine(error) }
  }
}
