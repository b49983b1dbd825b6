/** Reads what operators did about incidents. */
import { overrideClientsFor } from '../../clients/client-networks.js'
import { rememberClients } from '../../ground/remember.js'
import type { LogSnapshot } from '../report.js'
import type { FoundIncident } from './incident.js'
import type { IncidentTimes } from './minutes.js'
import { policiesOf } from './paths.js'

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

/** Returns the incidents since whose beginning there was an override or a ban of their clients, or an edit of a policy. */
export async function readActedOn(
  { query, dialect }: LogSnapshot,
  ongoing: readonly Ongoing[],
): Promise<ReadonlySet<FoundIncident>> {
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
  const isActedOn = ({ found, times }: Ongoing) =>
    changes.some(
      ({ entity, name, at }) =>
        at >= times.fromMs && (entity === 'rule' ? names.get(found)?.rule : names.get(found)?.override)?.includes(name),
    )
  return new Set(ongoing.filter(isActedOn).map(({ found }) => found))
}

/** There are up to 129 networks around a client. */
const overridesFor = rememberClients(overrideClientsFor, (spelled) => 2 * spelled.join().length)

/** Returns the names under which the history has what may be done about an incident. */
function actedNames(found: FoundIncident): { readonly override: readonly string[]; readonly rule: readonly string[] } {
  const { kind, scope, rows } = found
  const rule = policiesOf(found)
  if (kind === 'policy') return { override: [], rule }
  if (kind === 'client') return { override: overridesFor(scope), rule }
  return { override: [...overridesFor(`ip:${scope}`), ...new Set(rows.map(({ client }) => client))], rule }
}
