/** Reads what operators did about incidents. */
import { overrideClientsFor } from '../../clients/client-networks.js'
import { rememberClients } from '../../ground/remember.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { POLICY } from '../../log/event-sql.js'
import { readIgnoredIncidents } from '../../rules/ignored-incidents.js'
import { Parameters } from '../filter.js'
import { duringPeriod, REFUSED_EVENTS } from '../logged-events.js'
import type { LogSnapshot } from '../report.js'
import { type FoundIncident, idOf } from './incident.js'
import type { IncidentTimes } from './minutes.js'
import { policiesOf } from './paths.js'
import { HEAVY_CLIENT, HEAVY_POLICY } from './usual.js'

/** An incident whose refusals go on. */
interface Ongoing {
  readonly found: FoundIncident
  readonly times: IncidentTimes
}

interface LastChange {
  readonly entity: 'override' | 'rule'
  readonly name: string
  readonly at: number
}

/** The latest thing that was done about an incident. */
export interface IncidentAction {
  readonly what: LastChange['entity'] | 'ignored'
  /** The client of the override, or the name of the rule; who ignores it. */
  readonly name: string
  readonly at_ms: number
}

/**
 * Reads what was done about incidents since they began, and not taken back: an override or a ban of their clients, an edit
 * of a policy, or that somebody ignores them.
 */
export async function readActions(
  snapshot: LogSnapshot,
  ongoing: readonly Ongoing[],
): Promise<ReadonlyMap<FoundIncident, IncidentAction>> {
  if (ongoing.length === 0) return new Map()
  const names = new Map(ongoing.map(({ found }) => [found, actedNames(found)]))
  const ids = ongoing.map(({ found }) => idOf(found))
  const [changes, ignored] = await Promise.all([
    readChanges(snapshot, [...names.values()], Math.min(...ongoing.map(({ times }) => times.fromMs))),
    readIgnoredIncidents(snapshot, ids),
  ])
  const actions = new Map<FoundIncident, IncidentAction>()
  for (const { found, times } of ongoing) {
    const { override = [], rule = [] } = names.get(found) ?? {}
    const isOfIt = ({ entity, name, at }: LastChange) =>
      at >= times.fromMs && (entity === 'rule' ? rule : override).includes(name)
    const latest = ignored
      .filter(({ id }) => id === idOf(found))
      .map(({ actor, at }): IncidentAction => ({ what: 'ignored', name: actor, at_ms: at }))
    for (const change of changes.filter(isOfIt)) {
      if (change.entity === 'rule' && (await isCause(snapshot, found, change))) continue
      latest.push({ what: change.entity, name: change.name, at_ms: change.at })
    }
    const [last] = latest.toSorted((one, other) => other.at_ms - one.at_ms)
    if (last !== undefined) actions.set(found, last)
  }
  return actions
}

/** Reads the last change of each override that was not deleted since, and of each rule, since a moment. */
function readChanges({ query, dialect }: LogSnapshot, names: readonly ActedNames[], sinceMs: number) {
  const spelled = (lists: readonly (readonly string[])[]) => JSON.stringify([...new Set(lists.flat())])
  const changes = dialect.table('rate_limit_change')
  return query<LastChange>(
    `SELECT entity, name, MAX(${dialect.toMs('changed_at')}) AS at FROM ${changes} AS change
     WHERE (entity = 'override' AND action <> 'delete' AND ${dialect.isOneOf('name', '$1', 'text')}
         AND NOT EXISTS (SELECT 1 FROM ${changes} AS later WHERE later.entity = 'override'
           AND later.row_id = change.row_id AND later.id > change.id AND later.action = 'delete')
         OR entity = 'rule' AND action <> 'create' AND ${dialect.isOneOf('name', '$2', 'text')})
       AND changed_at >= ${dialect.fromMs('$3')}
     GROUP BY entity, name`,
    [spelled(names.map(({ override }) => override)), spelled(names.map(({ rule }) => rule)), sinceMs],
  )
}

/**
 * Returns whether an edit of a policy may have caused an incident: in its first hour, before it had refused as much as
 * makes an incident.
 */
async function isCause(
  { query, dialect }: LogSnapshot,
  { from, kind }: FoundIncident,
  { name, at }: LastChange,
): Promise<boolean> {
  if (at >= (from + 1) * HOUR_MS) return false
  const parameters = new Parameters()
  const [before] = await query<{ refused: number }>(
    `SELECT COUNT(*) AS refused FROM ${dialect.table('rate_limit_event')}
     WHERE ${REFUSED_EVENTS.during} AND ${duringPeriod(dialect, { startMs: from * HOUR_MS, endMs: at }, parameters)}
       AND ${POLICY} = ${parameters.add(name)}`,
    parameters.values,
  )
  return (before?.refused ?? 0) < (kind === 'policy' ? HEAVY_POLICY : HEAVY_CLIENT)
}

/** A client has up to 129 networks around it. */
const overridesFor = rememberClients(overrideClientsFor, (spelled) => 2 * spelled.join().length)

/** The names under which the history has what may be done about an incident. */
interface ActedNames {
  readonly override: readonly string[]
  readonly rule: readonly string[]
}

function actedNames(found: FoundIncident): ActedNames {
  const { kind, scope, rows } = found
  const rule = policiesOf(found)
  if (kind === 'policy') return { override: [], rule }
  if (kind === 'client') return { override: overridesFor(scope), rule }
  return { override: [...overridesFor(`ip:${scope}`), ...new Set(rows.map(({ client }) => client))], rule }
}
