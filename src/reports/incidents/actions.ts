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
  readonly entity: string
  readonly name: string
  readonly at: number
}

/**
 * Returns the incidents since whose beginning there was an override or a ban of their clients, or an edit of a policy, and
 * those that somebody ignores.
 */
export async function readActedOn(
  snapshot: LogSnapshot,
  ongoing: readonly Ongoing[],
): Promise<ReadonlySet<FoundIncident>> {
  const { query, dialect } = snapshot
  if (ongoing.length === 0) return new Set()
  const names = new Map(ongoing.map(({ found }) => [found, actedNames(found)]))
  const changes = await query<LastChange>(
    `SELECT entity, name, MAX(${dialect.toMs('changed_at')}) AS at FROM ${dialect.table('rate_limit_change')}
     WHERE (entity = 'override' AND action <> 'delete' AND ${dialect.isOneOf('name', '$1', 'text')}
         OR entity = 'rule' AND ${dialect.isOneOf('name', '$2', 'text')})
       AND changed_at >= ${dialect.fromMs('$3')}
     GROUP BY entity, name`,
    [
      JSON.stringify([...new Set([...names.values()].flatMap(({ override }) => override))]),
      JSON.stringify([...new Set([...names.values()].flatMap(({ rule }) => rule))]),
      Math.min(...ongoing.map(({ times }) => times.fromMs)),
    ],
  )
  const ignored = await readIgnoredIncidents(
    snapshot,
    ongoing.map(({ found }) => idOf(found)),
  )
  const acted = await Promise.all(
    ongoing.map(async (each) => {
      if (ignored.has(idOf(each.found))) return each.found
      const { override = [], rule = [] } = names.get(each.found) ?? {}
      const its = changes.filter(({ entity, name }) => (entity === 'rule' ? rule : override).includes(name))
      const since = its.filter(({ at }) => at >= each.times.fromMs)
      if (since.some(({ entity }) => entity === 'override')) return each.found
      for (const edit of since) if (!(await isCause(snapshot, each.found, edit))) return each.found
      return undefined
    }),
  )
  return new Set(acted.filter((found) => found !== undefined))
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

/** Returns the names under which the history has what may be done about an incident. */
function actedNames(found: FoundIncident): { readonly override: readonly string[]; readonly rule: readonly string[] } {
  const { kind, scope, rows } = found
  const rule = policiesOf(found)
  if (kind === 'policy') return { override: [], rule }
  if (kind === 'client') return { override: overridesFor(scope), rule }
  return { override: [...overridesFor(`ip:${scope}`), ...new Set(rows.map(({ client }) => client))], rule }
}
