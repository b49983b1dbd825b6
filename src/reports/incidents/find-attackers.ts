/** The incidents of clients and of networks. Pure. */
import { groupBy } from '../../ground/group-by.js'
import type { HeavyHour } from '../closed-hour-cache.js'
import { type FoundIncident, networkFor, type RefusedRow } from './incident.js'
import { type HourSpan, spansFrom } from './usual.js'

/** The facts about clients: heavy ones, and the refusals of them and of their networks. */
export interface AttackerFacts {
  readonly heavy: readonly HeavyHour[]
  /** The rows of all hours that are looked at. */
  readonly rows: readonly RefusedRow[]
  readonly present: number
}

/** A group of clients with the hours in which one of them is heavy, and all their refusals. */
interface Group {
  readonly heavy: readonly HeavyHour[]
  readonly rows: readonly RefusedRow[]
}

/** Hours in which clients of one network were refused. */
interface Cluster extends HourSpan {
  readonly heavy: readonly HeavyHour[]
}

/** Groups heavy clients by their networks; a client without one is a group. */
export function groupHeavy(heavy: readonly HeavyHour[]): Map<string, HeavyHour[]> {
  return groupBy(heavy, ({ client }) => networkFor(client) ?? client)
}

export function countClients(heavy: readonly HeavyHour[]): number {
  return new Set(heavy.map(({ client }) => client)).size
}

/** Finds the incidents of clients, and of networks with two heavy clients or more at a time. */
export function findAttackers({ heavy, rows, present }: AttackerFacts): FoundIncident[] {
  const rowsByGroup = groupBy(rows, ({ client }) => networkFor(client) ?? client)
  return [...groupHeavy(heavy)].flatMap(([name, heavyHours]) => {
    const group = { heavy: heavyHours, rows: rowsByGroup.get(name) ?? [] }
    return findInGroup(name, group, present)
  })
}

function findInGroup(name: string, group: Group, present: number): FoundIncident[] {
  const found: FoundIncident[] = []
  const refusedHours = hoursWithRefusals(group.rows)
  let network: { from: number; to: number; heavy: HeavyHour[] } | undefined
  const close = () => {
    if (network !== undefined) found.push(toFound('network', name.slice('ip:'.length), network, group.rows))
    network = undefined
  }
  for (const cluster of clustersOf(group, present)) {
    const isPart = network !== undefined && cluster.from <= network.to
    if (!isPart) close()
    if (!isPart && countClients(cluster.heavy) < 2) {
      found.push(...cluster.heavy.slice(0, 1).map(({ client }) => toClientIncident(client, cluster, group.rows)))
      continue
    }
    const heavy = [...(network?.heavy ?? []), ...cluster.heavy]
    const [span = cluster] = spansOf(heavy, refusedHours, present)
    network = { from: span.from, to: Math.max(span.to, cluster.to), heavy }
  }
  close()
  return found
}

function toClientIncident(client: string, span: HourSpan, rows: readonly RefusedRow[]): FoundIncident {
  return toFound(
    'client',
    client,
    span,
    rows.filter((row) => row.client === client),
  )
}

/** Returns the spans of all clients of a group; those that overlap or touch are one. */
function clustersOf({ heavy, rows }: Group, present: number): Cluster[] {
  const rowsByClient = groupBy(rows, ({ client }) => client)
  const spans = [...groupBy(heavy, ({ client }) => client)].flatMap(([client, hours]) =>
    spansOf(hours, hoursWithRefusals(rowsByClient.get(client) ?? []), present).map(({ from, to }) => ({
      from,
      to,
      heavy: hours.filter(({ hour }) => hour >= from && hour < to),
    })),
  )
  const clusters: Cluster[] = []
  for (const span of spans.toSorted((one, other) => one.from - other.from)) {
    const last = clusters.at(-1)
    if (last === undefined || span.from > last.to) clusters.push(span)
    else {
      const heavy = [...last.heavy, ...span.heavy]
      clusters[clusters.length - 1] = { from: last.from, to: Math.max(last.to, span.to), heavy }
    }
  }
  return clusters
}

function hoursWithRefusals(rows: readonly RefusedRow[]): ReadonlySet<number> {
  return new Set(rows.flatMap(({ refused, at }) => (refused > 0 ? [at] : [])))
}

function spansOf(heavy: readonly HeavyHour[], refusedHours: ReadonlySet<number>, present: number): HourSpan[] {
  return spansFrom(
    heavy.map(({ hour }) => hour),
    (hour) => refusedHours.has(hour),
    present,
  )
}

function toFound(
  kind: FoundIncident['kind'],
  scope: string,
  { from, to }: HourSpan,
  rows: readonly RefusedRow[],
): FoundIncident {
  const within = rows.filter(({ at }) => at >= from && at < to)
  return { kind, scope, from, to, rows: within, before: rows.filter(({ at }) => at === from - 1), without: [] }
}
