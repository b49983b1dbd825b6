/** Reads what is heavy in an hour, and what every policy refused in it. Hours that are over are read once. */
import { HOUR_MS } from '../../ground/time/clock.js'
import { HOUR_SPAN } from '../../log/rollups/counting.js'
import { isClosed } from '../period.js'
import type { LogSnapshot } from '../report.js'
import type { HeavyHour } from './find-attackers.js'
import type { PolicyTotal } from './find-policies.js'
import { groupBy } from './incident.js'
import { readHours } from './refusal-sums.js'
import { HEAVY_CLIENT, isHeavy, median, usualHours } from './usual.js'

/** The most clients of an hour that are incidents: those with the most refusals. The others count for policies. */
const MAX_HEAVY = 500

/** The hours of the log, as of a snapshot. */
export interface LogHours {
  /** The first hour of the log, where it is not earlier than all that is looked at; infinity without events. */
  readonly first: number
  readonly present: number
  heavyClients(hour: number): Promise<readonly HeavyHour[]>
  policyTotals(hour: number): Promise<ReadonlyMap<string, PolicyTotal>>
}

export async function openHours(snapshot: LogSnapshot, from: number): Promise<LogHours> {
  const { sums, nowMs, closed } = snapshot
  const { first: firstFolded, versions } = await readVersions(snapshot, from)
  const firstUnfolded = Math.floor((sums.unfolded?.from ?? Number.POSITIVE_INFINITY) / HOUR_SPAN)
  const first = Math.max(from, Math.min(firstFolded, firstUnfolded))
  const open = sums.unfolded === undefined ? sums.dirty : [...sums.dirty, toHours(sums.unfolded)]
  const isOver = (hour: number) => isClosed({ startMs: hour * HOUR_MS, endMs: (hour + 1) * HOUR_MS }, open, nowMs)
  const readHeavy = (hour: number) => readHeavyClients(snapshot, hour, first)
  const readTotals = (hour: number) => readPolicyTotals(snapshot, hour)
  return {
    first,
    present: Math.floor(nowMs / HOUR_MS),
    heavyClients: (hour) => {
      const hours = [hour, ...usualHours(hour, first)]
      if (!hours.every(isOver)) return readHeavy(hour)
      return closed.heavyClients.read(hour, hours.map(versions).join(' '), () => readHeavy(hour))
    },
    policyTotals: (hour) =>
      isOver(hour) ? closed.policyTotals.read(hour, versions(hour), () => readTotals(hour)) : readTotals(hour),
  }
}

function toHours({ from, to }: { readonly from: number; readonly to: number }) {
  return { from: Math.floor(from / HOUR_SPAN), to: Math.ceil(to / HOUR_SPAN) }
}

/** Reads the first hour of the sums, and what changes with those of each hour. */
async function readVersions({ query, dialect }: LogSnapshot, from: number) {
  const rows = await query<{ first: number | null; recounts: number; hour: number | null; events: number | null }>(
    `SELECT (SELECT MIN(bucket) FROM ${dialect.table('rate_limit_traffic_rollup')} WHERE span = ${HOUR_SPAN}) AS first,
       recounts, hour, total + denied AS events
     FROM ${dialect.table('rate_limit_watermark')} LEFT JOIN ${dialect.table('rate_limit_trend')} ON hour >= $1`,
    [from],
  )
  const events = new Map(rows.map((row) => [row.hour, row.events]))
  return {
    first: rows[0]?.first ?? Number.POSITIVE_INFINITY,
    versions: (hour: number) => `${rows[0]?.recounts} ${events.get(hour) ?? 0}`,
  }
}

async function readHeavyClients(snapshot: LogSnapshot, hour: number, first: number): Promise<readonly HeavyHour[]> {
  const refused = await readHours<{ client: string; refused: number }>(snapshot, [hour], {
    select: 'client, SUM(refused) AS refused',
    condition: ({ client }) => `${client} <> ''`,
    end: `GROUP BY client HAVING SUM(refused) >= ${HEAVY_CLIENT} ORDER BY SUM(refused) DESC, client LIMIT ${MAX_HEAVY}`,
  })
  if (refused.length === 0) return []
  const usual = await readUsual(
    snapshot,
    usualHours(hour, first),
    refused.map(({ client }) => client),
  )
  return refused
    .filter((row) => isHeavy(row.refused, median(usual.map((day) => day.get(row.client) ?? 0)), HEAVY_CLIENT))
    .map(({ client }) => ({ client, hour }))
}

/** Reads the refusals of some clients in some hours: hour by hour, by client. */
async function readUsual(snapshot: LogSnapshot, hours: readonly number[], clients: readonly string[]) {
  const names = JSON.stringify(clients)
  const rows = await readHours<{ at: number; client: string; refused: number }>(snapshot, hours, {
    select: 'at, client, SUM(refused) AS refused',
    condition: ({ client }, parameters) => snapshot.dialect.isOneOf(client, parameters.add(names), 'text'),
    end: 'GROUP BY at, client',
  })
  const byHour = groupBy(rows, ({ at }) => at)
  return hours.map((hour) => new Map((byHour.get(hour) ?? []).map(({ client, refused }) => [client, refused])))
}

async function readPolicyTotals(snapshot: LogSnapshot, hour: number): Promise<ReadonlyMap<string, PolicyTotal>> {
  const rows = await readHours<PolicyTotal>(snapshot, [hour], {
    select: 'policy, SUM(refused) AS refused, SUM(denied) AS denied',
    condition: () => 'true',
    end: 'GROUP BY policy',
  })
  return new Map(rows.map((row) => [row.policy, row]))
}
