/** Reads the paths of incidents from the log, and which rules refused beside the deciding ones. */
import { readForEach } from '../../database/list.js'
import { groupBy } from '../../ground/group-by.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { parseAppliedRules } from '../../log/applied-rules.js'
import { CLIENT, POLICY } from '../../log/event-sql.js'
import { busiest, compareBytes, NO_TRAFFIC } from '../breakdown.js'
import { keysForClient } from '../client-search.js'
import { TURNED_AWAY_EVENTS } from '../logged-events.js'
import { type OtherKeys, readOtherKeys } from '../other-keys.js'
import type { LogSnapshot } from '../report.js'
import { type FoundIncident, idOf, POLICY_SCOPE } from './incident.js'

const MAX_PATHS = 5
/** The number of clients of a network that are read: those with the most refusals. */
const MAX_CLIENTS = 3
/** The number of the latest refusals that are read: of a key, and of a policy. */
const PER_KEY = 50
const PER_POLICY = 500
/** Reads the most frequent paths among the latest refusals of each incident; those of one that is over only once. */
export async function readPaths(
  snapshot: LogSnapshot,
  incidents: readonly { readonly found: FoundIncident; readonly isOver: boolean }[],
): Promise<ReadonlyMap<FoundIncident, readonly string[]>> {
  const { closed, sums } = snapshot
  const paths = new Map<FoundIncident, readonly string[]>()
  for (const { found, isOver } of incidents) {
    const remembered = isOver ? closed.incidentPaths.get(idOf(found), sums.closedVersion) : undefined
    if (remembered !== undefined) paths.set(found, remembered)
  }
  const unknown = incidents.filter(({ found }) => !paths.has(found))
  const refusals = await readLatest(
    snapshot,
    unknown.map(({ found }) => found),
  )
  for (const { found, isOver } of unknown) {
    const latest = refusals.get(found) ?? []
    const traffic = latest.map(([, path, , total]) => ({ ...NO_TRAFFIC, total: Number(total), path }))
    const names = busiest(traffic, ({ path }) => path).map(({ name }) => name)
    paths.set(found, names.slice(0, MAX_PATHS))
    if (isOver) closed.incidentPaths.set(idOf(found), sums.closedVersion, names.slice(0, MAX_PATHS))
  }
  return paths
}

/** Reads the rules that refused the latest requests of incidents, beside the policies that decided. */
export async function readRefusingBeside(
  snapshot: LogSnapshot,
  incidents: readonly FoundIncident[],
): Promise<ReadonlyMap<FoundIncident, ReadonlySet<string>>> {
  const refusals = await readLatest(snapshot, incidents)
  const namesOf = (rows: readonly LatestRefusals[]) =>
    rows.flatMap(([, , rules]) => parseAppliedRules(rules).flatMap(({ name, isRefused }) => (isRefused ? [name] : [])))
  return new Map([...refusals].map(([found, rows]) => [found, new Set(namesOf(rows))]))
}

/** Refusals that are alike: of an incident, by its index. */
type LatestRefusals = readonly [incident: number, path: string, rules: string, total: number]

async function readLatest(
  snapshot: LogSnapshot,
  incidents: readonly FoundIncident[],
): Promise<ReadonlyMap<FoundIncident, readonly LatestRefusals[]>> {
  const { dialect } = snapshot
  const others = await readOthers(snapshot, incidents)
  const [first, second] = [dialect.jsonField(3, 'text'), dialect.jsonField(4, 'text')]
  const period = `"timestamp" >= ${dialect.fromMs(dialect.jsonField(1, 'bigint'))}
    AND "timestamp" < ${dialect.fromMs(dialect.jsonField(2, 'bigint'))} AND outcome <> 'denied'`
  const read = (elements: readonly (readonly (string | number)[])[], where: string, limit: number) =>
    readForEach<LatestRefusals>(
      snapshot,
      elements,
      'incident, path, rules, total',
      () =>
        `SELECT ${dialect.jsonField(0, 'bigint')} AS incident, path, rules, SUM(weight) AS total FROM (
           SELECT path, rules, weight FROM ${dialect.table('rate_limit_event')} WHERE ${period} AND ${where}
           ORDER BY "timestamp" DESC LIMIT ${limit}
         ) AS latest GROUP BY path, rules`,
    )
  const periodOf = ({ from, to }: FoundIncident) => [from * HOUR_MS, to * HOUR_MS]
  const ofPolicies = incidents.flatMap((found, index) =>
    found.kind === 'policy' ? [[index, ...periodOf(found), found.scope.slice(POLICY_SCOPE.length)]] : [],
  )
  const ofKeys = incidents.flatMap((found, index) =>
    found.kind === 'policy'
      ? []
      : clientsOf(found).flatMap((client) =>
          [...keysForClient(client, policiesOf(found)), ...(others.get(client) ?? [])].map((key) => [
            index,
            ...periodOf(found),
            key,
            client,
          ]),
        ),
  )
  const rows = await Promise.all([
    read(ofPolicies, `${TURNED_AWAY_EVENTS.during} AND ${POLICY} = ${first}`, PER_POLICY),
    read(ofKeys, `key = ${first} AND ${TURNED_AWAY_EVENTS.afterId} AND ${CLIENT} = ${second}`, PER_KEY),
  ])
  const byIncident = groupBy(rows.flat(), ([incident]) => incident)
  return new Map(incidents.map((found, index) => [found, byIncident.get(index) ?? []]))
}

/** Reads the keys of the clients of incidents that do not tell them. */
async function readOthers(snapshot: LogSnapshot, incidents: readonly FoundIncident[]): Promise<OtherKeys> {
  const ofClients = incidents.filter(({ kind }) => kind !== 'policy')
  if (ofClients.length === 0) return new Map()
  const since = Math.min(...ofClients.map(({ from }) => from)) * HOUR_MS
  return readOtherKeys(snapshot, [...new Set(ofClients.flatMap(clientsOf))], { since })
}

/** Returns the clients of an incident: those with the most refusals. */
function clientsOf({ rows }: FoundIncident): string[] {
  return sumBy(rows, 'client').slice(0, MAX_CLIENTS)
}

/** Returns the policies of an incident, the most refusals first. */
export function policiesOf({ rows }: FoundIncident): string[] {
  return sumBy(rows, 'policy')
}

function sumBy(rows: FoundIncident['rows'], column: 'client' | 'policy'): string[] {
  // An incident of a month has tens of thousands of rows.
  const sums = new Map<string, number>()
  for (const row of rows) {
    if (row.refused > 0) sums.set(row[column], (sums.get(row[column]) ?? 0) + row.refused)
  }
  return [...sums]
    .toSorted(([one, refused], [other, more]) => more - refused || compareBytes(one, other))
    .map(([name]) => name)
}
