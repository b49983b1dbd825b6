import type { LogSnapshot } from '../report.js'
import type { FoundIncident } from './incident.js'
import { readPolicy } from './refusal-sums.js'

/** Counts the clients of the incident of a policy, without those that are in other incidents. */
export async function countPolicyClients(snapshot: LogSnapshot, { rows, without, from, to }: FoundIncident) {
  const policy = rows[0]?.policy ?? ''
  const others = new Set(without.map(([hour, client]) => `${hour} ${client}`))
  const found = await readPolicy(snapshot, 60, { from, to }, policy, true)
  const refused = found.filter(
    ({ at, client, refused }) => refused > 0 && client !== '' && !others.has(`${at} ${client}`),
  )
  return new Set(refused.map(({ client }) => client)).size
}
