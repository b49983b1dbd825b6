/** Finds the incidents of a range of hours. */
import { HOUR_MS } from '../../ground/time/clock.js'
import type { Period } from '../period.js'
import type { LogSnapshot } from '../report.js'
import { findAttackers } from './find-attackers.js'
import { findPolicies, hoursForUsual } from './find-policies.js'
import type { FoundIncident } from './incident.js'
import { readAttackers } from './read-attackers.js'
import { type LogHours, openHours } from './read-hours.js'
import { QUIET_HOURS, usualHours } from './usual.js'

/** How many times as many hours are read as before, where an incident may have begun earlier: one of a month takes two reads more. */
const FURTHER_BACK = 8

/**
 * Finds the incidents that reach into the hours from `since` on. An incident is the same whatever the range: where one may
 * have begun earlier than what is read, more is read.
 */
export async function findIncidents(snapshot: LogSnapshot, since: number): Promise<FoundIncident[]> {
  const earliest = Math.min(...usualHours(since - QUIET_HOURS, Number.NEGATIVE_INFINITY))
  let hours = await openHours(snapshot, earliest)
  for (let before = QUIET_HOURS; ; before *= FURTHER_BACK) {
    const from = Math.max(hours.first, since - before)
    const found = await findFrom(snapshot, hours, from)
    const reaching = found.filter(({ to }) => to > since)
    if (from <= hours.first || !reaching.some((incident) => incident.from - from < QUIET_HOURS)) return reaching
    hours = await openHours(snapshot, earliest - FURTHER_BACK * before)
  }
}

/** Finds the clients that were refused in incidents of clients and networks that reach into a period. */
export async function findIncidentClients(snapshot: LogSnapshot, { startMs, endMs }: Period): Promise<string[]> {
  const found = await findIncidents(snapshot, Math.floor(startMs / HOUR_MS))
  const reaching = found.filter(({ kind, from }) => kind !== 'policy' && from * HOUR_MS < endMs)
  const refused = reaching.flatMap(({ rows }) => rows.filter((row) => row.refused > 0))
  return [...new Set(refused.map(({ client }) => client))]
}

async function findFrom(snapshot: LogSnapshot, hours: LogHours, from: number): Promise<FoundIncident[]> {
  const { present, first } = hours
  if (from > present) return []
  const range = Array.from({ length: present + 1 - from }, (_, index) => from + index)
  const heavy = [...(await hours.heavyClients(range)).values()].flat()
  const rows = await readAttackers(snapshot, heavy, { from, to: present + 1 })
  const attackers = findAttackers({ heavy, rows, present })
  const totals = new Map(await hours.policyTotals(range))
  const facts = { totals, firstHour: first, from, present }
  const missing = (await hoursForUsual(facts)).filter((hour) => !totals.has(hour))
  for (const [hour, policies] of await hours.policyTotals(missing)) totals.set(hour, policies)
  return [...attackers, ...(await findPolicies({ ...facts, attackers }))]
}
