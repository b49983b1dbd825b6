import { createHash } from 'node:crypto'
import { clientAddress, neighbourhood, networkClient } from '../../clients/client-networks.js'
import { rememberClients } from '../../ground/remember.js'
import { HOUR_MS } from '../../ground/time/clock.js'

/** Whether refusals go on, whether they have fallen to half since somebody acted or are ignored, or whether they have ended. */
export const INCIDENT_STATES = ['open', 'acted_on', 'over'] as const
export type IncidentState = (typeof INCIDENT_STATES)[number]

/** Unusually many refusals that belong together: those of a client, of a network, or of a policy. */
export interface Incident {
  /**
   * The hash of the hour in which the incident began and of its client or policy, of an address that of its network: the same
   * in every call and in every process, also when the incident of a client becomes that of its network.
   */
  readonly id: string
  /** A client, as `ip:203.0.113.7` or `user:7`; a network, as `203.0.113.0/24`; or a policy, as `policy:search`. */
  readonly scope: string
  /** The beginning, in ISO 8601: a whole hour, or a whole minute within the last two hours. */
  readonly from: string
  /** The end of the refusals, as `from`; null while they go on. */
  readonly to: string | null
  readonly state: IncidentState
  /** The policies that refused, the most refusals first: of several that refused a request, the one with the longest wait. */
  readonly policies: readonly string[]
  /**
   * The paths of its latest refusals, at most five, the most frequent first; empty where the log has no rows of them
   * any more.
   */
  readonly paths: readonly string[]
  /** Requests that were over a limit. */
  readonly refused: number
  /** Requests that were denied in the same hours: by an override, a ban or the deny list. */
  readonly denied: number
  /** The number of clients that were refused. */
  readonly clients: number
}

/** The number of characters of a hash that are an id: 80 bits. */
const ID_LENGTH = 20

/** The scope of a policy's incident, before the name. */
export const POLICY_SCOPE = 'policy:'

/** Returns the network by which a client is grouped, as a client; undefined for one without a whole address. */
export const networkFor = rememberClients((client) => {
  const address = clientAddress(client)
  return address === undefined ? undefined : networkClient(neighbourhood(address))
})

/** Returns the id of the incident of a client, a network or a policy that began in an hour. It tells nobody the client. */
function incidentId(name: string, hour: number): string {
  return createHash('sha256')
    .update(JSON.stringify([name, hour * HOUR_MS]))
    .digest('hex')
    .slice(0, ID_LENGTH)
}

/** The refusals of a client by a policy in one hour, or in one minute. */
export interface RefusedRow {
  /** The number of the hour, or the minute, since the epoch. */
  readonly at: number
  readonly client: string
  readonly policy: string
  readonly refused: number
  readonly denied: number
}

/** An incident as it is found from the sums, in whole hours since the epoch; the end is exclusive. */
export interface FoundIncident {
  readonly kind: 'client' | 'network' | 'policy'
  readonly scope: string
  readonly from: number
  readonly to: number
  /** The refusals of its hours; those of a policy have no client. */
  readonly rows: readonly RefusedRow[]
  /** The refusals of its clients in the hour before: they count for no policy. */
  readonly before: readonly RefusedRow[]
  /** The refusals of clients in other incidents, which a policy's leave out: the hour and the client. */
  readonly without: readonly (readonly [hour: number, client: string])[]
}

export function idOf({ kind, scope, from }: FoundIncident): string {
  const subject = subjectOf(scope)
  return incidentId(kind === 'policy' ? subject : (networkFor(subject) ?? subject), from)
}

const NETWORK = /^[\da-f.:]+\/\d+$/

/** Returns the client of a scope, as pages, overrides and the history spell it: a network is one too. A policy stays as it is. */
export function subjectOf(scope: string): string {
  return NETWORK.test(scope) ? `ip:${scope}` : scope
}

/** Returns the ids of all incidents that a client may have had since a moment; none of an address, which has its network's. */
export function incidentIdsOf(client: string, sinceMs: number, nowMs: number): string[] {
  if (networkFor(client) !== undefined) return []
  const first = Math.floor(sinceMs / HOUR_MS)
  return Array.from({ length: Math.floor(nowMs / HOUR_MS) + 1 - first }, (_, index) =>
    incidentId(client, first + index),
  )
}

/**
 * Returns the ids under which the refusals of a client's or a network's incident may have been found before any of its
 * clients was heavy: as incidents of policies, which began in its first hour or the one before.
 */
export function earlierIds({ scope, policies, from }: Incident): string[] {
  if (scope.startsWith(POLICY_SCOPE)) return []
  const hour = Math.floor(Date.parse(from) / HOUR_MS)
  return policies.flatMap((policy) => [hour, hour - 1].map((each) => incidentId(`${POLICY_SCOPE}${policy}`, each)))
}
