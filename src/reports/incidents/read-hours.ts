/** Reads what is heavy in an hour, and what every policy refused in it. Hours that are over are read once. */
import { groupBy } from '../../ground/group-by.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { HOUR_SPAN } from '../../log/rollups/counting.js'
import type { HeavyHour, PolicyTotal, VersionedMemo } from '../closed-hour-cache.js'
import { isClosed } from '../period.js'
import type { LogSnapshot } from '../report.js'
import { readHours } from './refusal-sums.js'
import { HEAVY_CLIENT, isHeavy, median, usualHours } from './usual.js'

/** The most clients of an hour that are incidents: those with the most refusals. The others count for policies. */
const MAX_HEAVY = 500

/** The values of hours. */
type ByHour<Value> = ReadonlyMap<number, Value>

/** The hours of the log, as of a snapshot. */
export interface LogHours {
  /** The first hour of the log, where it is not earlier than all that is looked at; infinity without events. */
  readonly first: number
  readonly present: number
  heavyClients(hours: readonly number[]): Promise<ByHour<readonly HeavyHour[]>>
  policyTotals(hours: readonly number[]): Promise<ByHour<ReadonlyMap<string, PolicyTotal>>>
}

export async function openHours(snapshot: LogSnapshot, from: number): Promise<LogHours> {
  const { sums, nowMs, closed } = snapshot
  const { first: firstFolded, versionOf } = await readVersions(snapshot, from)
  const firstUnfolded = Math.floor((sums.unfolded?.from ?? Number.POSITIVE_INFINITY) / HOUR_SPAN)
  const first = Math.max(from, Math.min(firstFolded, firstUnfolded))
  const open = sums.unfolded === undefined ? sums.dirty : [...sums.dirty, toHours(sums.unfolded)]
  const isOver = (hour: number) => isClosed({ startMs: hour * HOUR_MS, endMs: (hour + 1) * HOUR_MS }, open, nowMs)
  /** Hours that may still change have no version. */
  const versionFor = (hours: readonly number[]) =>
    hours.every(isOver) ? hours.map((hour) => `${hour} ${versionOf(hour)}`).join(', ') : undefined
  return {
    first,
    present: Math.floor(nowMs / HOUR_MS),
    heavyClients: (hours) =>
      readKept(
        hours,
        closed.heavyClients,
        (hour) => versionFor([hour, ...usualHours(hour, first)]),
        (some) => readHeavyClients(snapshot, some, first),
      ),
    policyTotals: (hours) =>
      readKept(
        hours,
        closed.policyTotals,
        (hour) => versionFor([hour]),
        (some) => readPolicyTotals(snapshot, some),
      ),
  }
}

/** Reads hours, but for those that are known. */
async function readKept<Value>(
  hours: readonly number[],
  memo: VersionedMemo<number, Value>,
  versionFor: (hour: number) => string | undefined,
  read: (hours: readonly number[]) => Promise<ByHour<Value>>,
): Promise<ByHour<Value>> {
  const values = new Map<number, Value>()
  const unknown: { readonly hour: number; readonly version: string | undefined }[] = []
  for (const hour of hours) {
    const version = versionFor(hour)
    const value = version === undefined ? undefined : memo.get(hour, version)
    if (value === undefined) unknown.push({ hour, version })
    else values.set(hour, value)
  }
  const found = await read(unknown.map(({ hour }) => hour))
  for (const { hour, version } of unknown) {
    const value = found.get(hour)
    if (value === undefined) continue
    values.set(hour, value)
    if (version !== undefined) memo.set(hour, version, value)
  }
  return values
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
    versionOf: (hour: number) => `${rows[0]?.recounts} ${events.get(hour) ?? 0}`,
  }
}

interface RefusedClient {
  readonly at: number
  readonly client: string
  readonly refused: number
}

async function readHeavyClients(
  snapshot: LogSnapshot,
  hours: readonly number[],
  first: number,
): Promise<ByHour<readonly HeavyHour[]>> {
  const refused = await readHours<RefusedClient>(snapshot, hours, {
    select: `at, client, refused FROM (
      SELECT at, client, refused, ROW_NUMBER() OVER (PARTITION BY at ORDER BY refused DESC, client) AS place FROM (
        SELECT at, client, SUM(refused) AS refused`,
    condition: ({ client }) => `${client} <> ''`,
    end: `GROUP BY at, client HAVING SUM(refused) >= ${HEAVY_CLIENT}) AS heavy) AS placed WHERE place <= ${MAX_HEAVY}`,
  })
  const byHour = groupBy(refused, ({ at }) => at)
  const heavy = new Map<number, readonly HeavyHour[]>()
  for (const hour of hours) heavy.set(hour, await onlyUnusual(snapshot, hour, byHour.get(hour) ?? [], first))
  return heavy
}

/** Returns the clients that were refused much more than usual. */
async function onlyUnusual(
  snapshot: LogSnapshot,
  hour: number,
  refused: readonly RefusedClient[],
  first: number,
): Promise<readonly HeavyHour[]> {
  if (refused.length === 0) return []
  const names = JSON.stringify(refused.map(({ client }) => client))
  const days = usualHours(hour, first)
  const rows = await readHours<RefusedClient>(snapshot, days, {
    select: 'at, client, SUM(refused) AS refused',
    condition: ({ client }, parameters) => snapshot.dialect.isOneOf(client, parameters.add(names), 'text'),
    end: 'GROUP BY at, client',
  })
  const byClient = groupBy(rows, ({ client }) => client)
  const usual = (client: string) => {
    const counts = (byClient.get(client) ?? []).map((row) => row.refused)
    return median([...counts, ...Array<number>(days.length - counts.length).fill(0)])
  }
  return refused
    .filter((row) => isHeavy(row.refused, usual(row.client), HEAVY_CLIENT))
    .map(({ client }) => ({ client, hour }))
}

async function readPolicyTotals(
  snapshot: LogSnapshot,
  hours: readonly number[],
): Promise<ByHour<ReadonlyMap<string, PolicyTotal>>> {
  const rows = await readHours<PolicyTotal & { readonly at: number }>(snapshot, hours, {
    select: 'at, policy, SUM(refused) AS refused, SUM(denied) AS denied',
    condition: () => 'true',
    end: 'GROUP BY at, policy',
  })
  const byHour = groupBy(rows, ({ at }) => at)
  return new Map(hours.map((hour) => [hour, new Map((byHour.get(hour) ?? []).map((row) => [row.policy, row]))]))
}
