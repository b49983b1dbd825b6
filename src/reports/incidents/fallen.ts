/** Finds the incidents whose refusals have fallen since somebody acted. */
import { groupBy } from '../../ground/group-by.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import type { LogSnapshot } from '../report.js'
import type { FoundIncident } from './incident.js'
import { readIncidents } from './minutes.js'

/** The time before an act, and before now. */
const COMPARED_MS = 10 * MINUTE_MS
/** The most that may be left of the refusals before an act. */
const MOST_LEFT = 0.5
/** The most acts of an incident that are looked at: the latest, and the first. */
const MAX_ACTS = 5

/**
 * Returns the incidents that were refused at most half as often in the last ten minutes as in the ten before one of the
 * acts about them.
 *
 * @param acts the moments of the acts, the latest first
 */
export async function findFallen(
  snapshot: LogSnapshot,
  acts: ReadonlyMap<FoundIncident, readonly number[]>,
): Promise<ReadonlySet<FoundIncident>> {
  const acted = [...acts].filter(([, actedMs]) => actedMs.length > 0)
  const left = await readRefused(
    snapshot,
    acted.map(([found]) => found),
    snapshot.nowMs,
  )
  const fallen = new Set(acted.flatMap(([found]) => (left(found) === 0 ? found : [])))
  const compared = acted.flatMap(([found, actedMs]) =>
    fallen.has(found)
      ? []
      : [...actedMs.slice(0, MAX_ACTS - 1), ...actedMs.slice(MAX_ACTS - 1).slice(-1)].map((atMs) => ({ found, atMs })),
  )
  // Servers write bans together, and an edit of a rule is about many incidents.
  for (const [atMs, group] of groupBy(compared, ({ atMs }) => atMs)) {
    const incidents = group.flatMap(({ found }) => (fallen.has(found) ? [] : found))
    const before = await readRefused(snapshot, incidents, atMs)
    for (const each of incidents) if (left(each) <= MOST_LEFT * before(each)) fallen.add(each)
  }
  return fallen
}

/** Reads the refusals of incidents in the ten minutes up to a moment, with it. */
async function readRefused(
  snapshot: LogSnapshot,
  incidents: readonly FoundIncident[],
  atMs: number,
): Promise<(incident: FoundIncident) => number> {
  const to = Math.floor(atMs) + 1
  const rows = await readIncidents(snapshot, incidents, 'ms', { from: to - COMPARED_MS, to })
  return (incident) => rows(incident).reduce((sum, { refused }) => sum + refused, 0)
}
