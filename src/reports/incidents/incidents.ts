import { HOUR_MS } from '../../ground/time/clock.js'
import { compareBytes } from '../breakdown.js'
import { report } from '../registration.js'
import { clampedIsoTime, type LogSnapshot, type Report } from '../report.js'
import { type ReportWindow, type TimeRange, type WindowOptions, windowFor } from '../report-window.js'
import { type IncidentHistory, readActions } from './actions.js'
import { findFallen } from './fallen.js'
import { findIncidents } from './find-incidents.js'
import { type FoundIncident, INCIDENT_STATES, type Incident, type IncidentState, idOf } from './incident.js'
import { type IncidentEffect, readEffect } from './incident-effect.js'
import { type IncidentTimes, readTimes } from './minutes.js'
import { policiesOf, readPaths } from './paths.js'
import { readPolicy } from './refusal-sums.js'

/** What goes on has refusals in it. */
const LAST_HOUR = { days: 1 / 24 }
/** The most incidents that are listed. */
export const MAX_INCIDENTS = 1_000

interface Timed {
  readonly found: FoundIncident
  readonly times: IncidentTimes
  readonly refused: number
}

/** An incident with its state, and what was done about it. */
interface Listed extends Timed, Partial<IncidentHistory> {
  readonly state: IncidentState
}

/** An incident, with what was done about it, and what came of that. */
export interface IncidentStory extends Incident, Omit<IncidentHistory, 'actedMs'> {
  /** Undefined in the first second, and of one that is ignored. */
  readonly effect: IncidentEffect | undefined
}

/**
 * Reports the incidents that were not over before the window: those that go on first, then those with the most refusals;
 * 1000 at most.
 */
export const incidents = report<WindowOptions, readonly Incident[]>()({
  name: 'listIncidents',
  summary: 'List the incidents: unusually many refusals',
  window: 1,
  options: ({ moment }) => ({
    since: moment('Only incidents that were not over before this moment; a day ago by default.'),
    until: moment('Only incidents that began before this moment. Only together with `since`.'),
  }),
  answer: ({ type, text, counts, time, orNull }) => ({
    id: text,
    scope: type.String({ description: 'ip:203.0.113.7, user:7, 203.0.113.0/24, or policy:search.' }),
    from: time,
    to: orNull(time, 'Null while refusals go on.'),
    state: type.Enum(INCIDENT_STATES),
    policies: type.Array(text),
    paths: type.Array(text),
    ...counts('refused', 'denied', 'clients'),
  }),
  columns: ['scope', 'from', 'to', 'state', 'refused', 'denied', 'clients', 'id'],
  read: async ({ window }, snapshot) => describe(snapshot, await listIncidents(snapshot, window)),
})

/**
 * Reports the incidents that go on, or those of a range, over or not: those that need somebody first, then those with the
 * most refusals.
 */
export function incidentStories(limit: number, range?: TimeRange): Report<readonly IncidentStory[]> {
  return async (snapshot) => {
    const all = await listIncidents(snapshot, range ?? LAST_HOUR)
    const listed = all.filter(({ state }) => range !== undefined || state !== 'over').slice(0, limit)
    const described = await describe(snapshot, listed)
    const effects = await Promise.all(listed.map((each) => readEffect(snapshot, each.found, each.action)))
    return described.map((incident, index) => ({
      ...incident,
      action: listed[index]?.action,
      cause: listed[index]?.cause,
      effect: effects[index],
    }))
  }
}

async function listIncidents(snapshot: LogSnapshot, window: ReportWindow): Promise<Listed[]> {
  const { startMs, endMs } = windowFor(window, snapshot.nowMs)
  const found = await findIncidents(snapshot, Math.floor(startMs / HOUR_MS))
  const times = await readTimes(snapshot, found)
  const timed = found.flatMap((each): Timed[] => {
    const its = times.get(each)
    const isListed = its !== undefined && its.fromMs < endMs && (its.toMs ?? Number.POSITIVE_INFINITY) > startMs
    return isListed ? [{ found: each, times: its, refused: each.rows.reduce((sum, row) => sum + row.refused, 0) }] : []
  })
  const actions = await readActions(
    snapshot,
    timed.filter((each) => each.times.toMs === undefined),
  )
  const fallen = await findFallen(snapshot, new Map(Array.from(actions, ([found, { actedMs }]) => [found, actedMs])))
  return timed
    .map((each) => {
      const history = actions.get(each.found)
      const isIgnored = history?.action?.what === 'ignored'
      return { ...each, ...history, state: stateOf(each, isIgnored || fallen.has(each.found)) }
    })
    .toSorted(
      (one, other) =>
        INCIDENT_STATES.indexOf(one.state) - INCIDENT_STATES.indexOf(other.state) ||
        other.refused - one.refused ||
        compareBytes(one.found.scope, other.found.scope) ||
        other.found.from - one.found.from,
    )
    .slice(0, MAX_INCIDENTS)
}

function stateOf({ times }: Timed, isActedOn: boolean): IncidentState {
  if (times.toMs !== undefined) return 'over'
  return isActedOn ? 'acted_on' : 'open'
}

async function describe(snapshot: LogSnapshot, listed: readonly Listed[]): Promise<Incident[]> {
  const paths = await readPaths(
    snapshot,
    listed.map(({ found, state }) => ({ found, isOver: state === 'over' })),
  )
  return Promise.all(
    listed.map(async ({ found, times, refused, state }) => ({
      id: idOf(found),
      scope: found.scope,
      from: clampedIsoTime(times.fromMs),
      to: times.toMs === undefined ? null : clampedIsoTime(times.toMs),
      state,
      policies: policiesOf(found),
      paths: paths.get(found) ?? [],
      refused,
      denied: found.rows.reduce((sum, row) => sum + row.denied, 0),
      clients: found.kind === 'policy' ? await countPolicyClients(snapshot, found) : refusedClients(found),
    })),
  )
}

function refusedClients({ rows }: FoundIncident): number {
  return new Set(rows.filter(({ refused }) => refused > 0).map(({ client }) => client)).size
}

/** Counts the clients of the incident of a policy, without those that are in other incidents. */
async function countPolicyClients(snapshot: LogSnapshot, { rows, without, from, to }: FoundIncident) {
  const policy = rows[0]?.policy ?? ''
  const others = new Set(without.map(([hour, client]) => `${hour} ${client}`))
  const found = await readPolicy(snapshot, 60, { from, to }, policy, true)
  const refused = found.filter(
    ({ at, client, refused }) => refused > 0 && client !== '' && !others.has(`${at} ${client}`),
  )
  return new Set(refused.map(({ client }) => client)).size
}
