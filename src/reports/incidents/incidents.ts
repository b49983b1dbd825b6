import { HOUR_MS } from '../../ground/time/clock.js'
import { compareBytes } from '../breakdown.js'
import { clampedIsoTime, type LogSnapshot, type Report } from '../report.js'
import { toWindow, type WindowOptions, windowFor } from '../report-window.js'
import { readActedOn } from './actions.js'
import { findIncidents } from './find-incidents.js'
import { type FoundIncident, INCIDENT_STATES, type Incident, type IncidentState, idOf } from './incident.js'
import { type IncidentTimes, readTimes } from './minutes.js'
import { policiesOf, readPaths } from './paths.js'
import { countPolicyClients } from './policy-clients.js'

/** The most incidents that are listed. */
const MAX_INCIDENTS = 1_000

interface Timed {
  readonly found: FoundIncident
  readonly times: IncidentTimes
  readonly refused: number
}

/**
 * Reports the incidents that were not over before the window: those that go on first, then those with the most refusals;
 * 1000 at most.
 */
export function incidents(options: WindowOptions = {}): Report<readonly Incident[]> {
  const window = toWindow(options, 1)
  return async (snapshot) => {
    const { startMs, endMs } = windowFor(window, snapshot.nowMs)
    const found = await findIncidents(snapshot, Math.floor(startMs / HOUR_MS))
    const times = await readTimes(snapshot, found)
    const timed = found.flatMap((each): Timed[] => {
      const its = times.get(each)
      const isListed = its !== undefined && its.fromMs < endMs && (its.toMs ?? Number.POSITIVE_INFINITY) > startMs
      return isListed
        ? [{ found: each, times: its, refused: each.rows.reduce((sum, row) => sum + row.refused, 0) }]
        : []
    })
    const actedOn = await readActedOn(
      snapshot,
      timed.filter((each) => each.times.toMs === undefined),
    )
    const stateOf = ({ found, times }: Timed): IncidentState =>
      times.toMs !== undefined ? 'over' : actedOn.has(found) ? 'acted_on' : 'open'
    const listed = timed
      .map((each) => ({ ...each, state: stateOf(each) }))
      .toSorted(
        (one, other) =>
          INCIDENT_STATES.indexOf(one.state) - INCIDENT_STATES.indexOf(other.state) ||
          other.refused - one.refused ||
          compareBytes(one.found.scope, other.found.scope) ||
          other.found.from - one.found.from,
      )
      .slice(0, MAX_INCIDENTS)
    return describe(snapshot, listed)
  }
}

async function describe(
  snapshot: LogSnapshot,
  listed: readonly (Timed & { readonly state: IncidentState })[],
): Promise<Incident[]> {
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
