/** The times when incidents began and ended: to the minute within the last two hours, otherwise to the hour. */
import { groupBy } from '../../ground/group-by.js'
import { HOUR_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { HOUR_SPAN, KEPT_MINUTES } from '../../log/rollups/counting.js'
import type { LogSnapshot } from '../report.js'
import { type FoundIncident, networkFor, type RefusedRow } from './incident.js'
import { networkRange } from './read-attackers.js'
import { type RangeUnit, readClients, readPolicy, unitMs } from './refusal-sums.js'
import type { HourSpan } from './usual.js'

/** The times in milliseconds since the epoch. */
export interface IncidentTimes {
  readonly fromMs: number
  /** The end; undefined while refusals go on. */
  readonly toMs: number | undefined
}

/** The refusals of an incident in the minutes that are known. */
type Minutes = ReadonlyMap<number, number>

/** Returns the times of an incident, by the minutes that are known from `horizon` on. */
export function timesOf(found: FoundIncident, minutes: Minutes, nowMs: number): IncidentTimes {
  const [present, minute] = [Math.floor(nowMs / HOUR_MS), Math.floor(nowMs / MINUTE_MS)]
  const first = minutesOfHour(minutes, found.from)
  const refused = sumRefused(found.rows.filter(({ at }) => at === found.from))
  // Minutes that are older than two hours are gone.
  const isWhole = first.length > 0 && first.reduce((sum, each) => sum + (minutes.get(each) ?? 0), 0) === refused
  const fromMs = isWhole ? Math.min(...first) * MINUTE_MS : found.from * HOUR_MS
  const lastHour = found.to - 1
  if (lastHour >= present) return { fromMs, toMs: undefined }
  const last = minutesOfHour(minutes, lastHour)
  const endMinute = last.length > 0 ? Math.max(...last) + 1 : found.to * HOUR_SPAN
  const goesOn = endMinute + HOUR_SPAN > minute
  return { fromMs, toMs: goesOn ? undefined : endMinute * MINUTE_MS }
}

function minutesOfHour(minutes: Minutes, hour: number): number[] {
  return [...minutes.keys()].filter((minute) => Math.floor(minute / HOUR_SPAN) === hour)
}

function sumRefused(rows: readonly RefusedRow[]): number {
  return rows.reduce((sum, { refused }) => sum + refused, 0)
}

/** Reads the minutes of incidents that began or ended within the last two hours. */
export async function readTimes(
  snapshot: LogSnapshot,
  incidents: readonly FoundIncident[],
): Promise<Map<FoundIncident, IncidentTimes>> {
  const { nowMs, sums } = snapshot
  const minute = Math.floor(nowMs / MINUTE_MS)
  const hourStart = Math.floor(nowMs / HOUR_MS) * HOUR_SPAN
  const kept = Math.max(minute - KEPT_MINUTES, sums.minutesFrom)
  const isNew = ({ from }: FoundIncident) => from * HOUR_SPAN === hourStart
  // The present hour tells only the beginning: what has refusals in it goes on.
  const before = incidents.filter((each) => !isNew(each) && each.to * HOUR_SPAN > kept)
  const ofOlder = await readIncidents(snapshot, before, 1, { from: kept, to: hourStart })
  const ofNew = await readIncidents(snapshot, incidents.filter(isNew), 1, {
    from: Math.max(kept, hourStart),
    to: minute + 1,
  })
  const times = new Map<FoundIncident, IncidentTimes>()
  for (const incident of incidents) {
    const { kind, from, to } = incident
    const range = { from: Math.max(kept, from * HOUR_SPAN), to: Math.min(minute + 1, to * HOUR_SPAN) }
    const ofPolicy = () => (range.from < range.to ? readOfPolicy(snapshot, incident, 1, range) : [])
    const rows = kind === 'policy' ? await ofPolicy() : isNew(incident) ? ofNew(incident) : ofOlder(incident)
    times.set(incident, timesOf(incident, sumMinutes(rows), nowMs))
  }
  return times
}

/** Reads the refusals of incidents in a range, and returns those of each. */
export async function readIncidents(
  snapshot: LogSnapshot,
  incidents: readonly FoundIncident[],
  span: RangeUnit,
  range: HourSpan,
): Promise<(incident: FoundIncident) => readonly RefusedRow[]> {
  const rows = await readClients(snapshot, span, range, {
    clients: incidents.flatMap(({ kind, scope }) => (kind === 'client' ? [scope] : [])),
    networks: incidents.flatMap(({ kind, scope }) => (kind === 'network' ? [networkRange(`ip:${scope}`)] : [])),
  })
  const byName = groupBy(rows, ({ client }) => client)
  const byNetwork = groupBy(rows, ({ client }) => networkFor(client))
  const ofPolicies = new Map<FoundIncident, RefusedRow[]>()
  for (const each of incidents) {
    if (each.kind === 'policy') ofPolicies.set(each, await readOfPolicy(snapshot, each, span, range))
  }
  return (incident) => {
    const { kind, scope } = incident
    const found = {
      client: () => byName.get(scope),
      network: () => byNetwork.get(`ip:${scope}`),
      policy: () => ofPolicies.get(incident),
    }
    return found[kind]() ?? []
  }
}

/** Reads the refusals of a policy, and takes off those of the clients that are in other incidents. */
async function readOfPolicy(
  snapshot: LogSnapshot,
  { rows, without }: FoundIncident,
  span: RangeUnit,
  range: HourSpan,
): Promise<RefusedRow[]> {
  const policy = rows[0]?.policy ?? ''
  const hourOf = (at: number) => Math.floor((at * unitMs(span)) / HOUR_MS)
  const others = without.filter(([hour]) => hour >= hourOf(range.from) && hour <= hourOf(range.to - 1))
  const isOther = new Set(others.map(([hour, client]) => `${hour} ${client}`))
  const clients = [...new Set(others.map(([, client]) => client))]
  const [all, ofOthers] = await Promise.all([
    readPolicy(snapshot, span, range, policy, false),
    readClients(snapshot, span, range, { clients, networks: [] }),
  ])
  // A range of milliseconds is short, and its rows have no hour.
  const taken = ofOthers.filter(
    (row) => row.policy === policy && (span === 'ms' || isOther.has(`${hourOf(row.at)} ${row.client}`)),
  )
  return [...all, ...taken.map((row) => ({ ...row, refused: -row.refused, denied: -row.denied }))]
}

function sumMinutes(rows: readonly RefusedRow[]): Minutes {
  const minutes = new Map<number, number>()
  for (const { at, refused } of rows) minutes.set(at, (minutes.get(at) ?? 0) + refused)
  return new Map([...minutes].filter(([, refused]) => refused > 0))
}
