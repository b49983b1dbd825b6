import { Parameters } from '../database/list.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../ground/time/clock.js'
import type { Change } from '../rules/history/history.js'
import { sumTraffic, type TrafficCounts } from './breakdown.js'
import { CLIENT_SUMS, type ClientCounts, clientEventCounts, NO_REQUESTS } from './client-counts.js'
import type { EventFilter } from './filter.js'
import { clientCondition, findFiltered } from './find-clients.js'
import type { Period } from './period.js'
import type { LogSnapshot, Report } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'
import { readRuleTraffic } from './rule-traffic.js'
import { countTraffic } from './traffic.js'

/** The decisions of a rule, or the requests of an override's client, in equal times before and after a change. */
export interface ChangeEffect {
  readonly change: RecentChange
  /** The length of each time, in milliseconds: whole hours, up to a day; whole minutes before an hour is over. */
  readonly length_ms: number
  readonly before: TrafficCounts
  readonly after: TrafficCounts
}

/** The most effects of a kind: each takes several queries. */
const MAX_OF_A_KIND = 3
/** A rule that works shows it in a day. */
const MAX_HOURS = 24
const MAX_MINUTES = 60

/** Reads the effects of the latest changes of the listed rules: of three rules at most. */
export async function readRuleEffects(
  snapshot: LogSnapshot,
  changes: readonly RecentChange[],
  listed: ReadonlySet<string>,
  filter: EventFilter,
): Promise<ChangeEffect[]> {
  // A rule that is gone is not listed: it has no time after.
  const ofRules = changes.filter(({ entity, name }) => entity === 'rule' && listed.has(name))
  return readEffects(
    snapshot,
    ofRules,
    timesAround,
    async ({ name }) =>
      async (period) =>
        sumTraffic(await readRuleTraffic(snapshot, period, { ...filter, rule: name })),
  )
}

/**
 * Reads the effects of the latest changes of overrides, of three clients or networks at most: on their requests that pass
 * the other fields of the filter.
 */
export async function readOverrideEffects(
  snapshot: LogSnapshot,
  changes: readonly RecentChange[],
  filter: EventFilter,
): Promise<ChangeEffect[]> {
  const ofOverrides = changes.filter(({ entity }) => entity === 'override')
  const { found: _, ...others } = filter
  // The requests of a client are read from the events.
  const times = (changedMs: number, nowMs: number) => wholeTimes(changedMs, nowMs, MINUTE_MS, MAX_MINUTES)
  return readEffects(snapshot, ofOverrides, times, async ({ name }, { startMs }) => {
    const filter = await findFiltered(snapshot, { ...others, key: name }, { since: startMs })
    return (period) => countTraffic(snapshot, period, filter)
  })
}

async function readEffects(
  snapshot: LogSnapshot,
  changes: readonly RecentChange[],
  timesFor: typeof timesAround,
  counterFor: (change: RecentChange, before: Period) => Promise<(period: Period) => Promise<TrafficCounts>>,
): Promise<ChangeEffect[]> {
  const latest = new Map<string, RecentChange>()
  for (const change of changes) if (!latest.has(change.name)) latest.set(change.name, change)
  const effects = [...latest.values()]
    .slice(0, MAX_OF_A_KIND)
    .map(async (change): Promise<ChangeEffect | undefined> => {
      const times = timesFor(change.at_ms, snapshot.nowMs)
      if (times === undefined) return undefined
      const count = await counterFor(change, times.before)
      const [before, after] = await Promise.all([count(times.before), count(times.after)])
      return { change, length_ms: times.after.endMs - times.after.startMs, before, after }
    })
  return (await Promise.all(effects)).filter((effect) => effect !== undefined)
}

/**
 * Returns equal times around a change, of whole hours or minutes, which the rollups mostly have without the events;
 * undefined in the first minute after it.
 */
export function timesAround(changedMs: number, nowMs: number): { before: Period; after: Period } | undefined {
  return wholeTimes(changedMs, nowMs, HOUR_MS, MAX_HOURS) ?? wholeTimes(changedMs, nowMs, MINUTE_MS, MAX_MINUTES)
}

function wholeTimes(changedMs: number, nowMs: number, unitMs: number, most: number) {
  const startMs = Math.ceil(changedMs / unitMs) * unitMs
  const endMs = Math.floor(changedMs / unitMs) * unitMs
  const lengthMs = Math.min(most, Math.floor((nowMs - startMs) / unitMs)) * unitMs
  if (lengthMs <= 0) return undefined
  return { before: { startMs: endMs - lengthMs, endMs }, after: { startMs, endMs: startMs + lengthMs } }
}

/** A change of a rule or an override within a window. */
export interface RecentChange extends Pick<Change, 'id' | 'entity' | 'name' | 'action' | 'actor'> {
  /** The moment in milliseconds since the epoch. */
  readonly at_ms: number
}

/** The history has no index on its times: no more than its latest rows are looked at. */
const LATEST = 1_000
const MAX_CHANGES = 50

/**
 * Reads the latest changes of a window, the newest first; 50 at most. Bans are left out: there may be very many; and ignored
 * incidents, which change nothing about requests.
 */
export function readRecentChanges(
  { entries: { query, dialect }, nowMs }: LogSnapshot,
  window: ReportWindow,
): Promise<RecentChange[]> {
  const table = dialect.table('rate_limit_change')
  const { startMs, endMs } = windowFor(window, nowMs)
  return query<RecentChange>(
    `SELECT id, ${dialect.toMs('changed_at')} AS at_ms, entity, name, action, actor
     FROM (SELECT * FROM ${table} ORDER BY id DESC LIMIT ${LATEST}) AS latest
     WHERE source <> 'ban' AND entity <> 'incident' AND changed_at >= ${dialect.fromMs('$1')} AND changed_at < ${dialect.fromMs('$2')}
     ORDER BY id DESC LIMIT ${MAX_CHANGES}`,
    [startMs, Math.min(endMs, nowMs + 1)],
  )
}

/** The requests of a client since a moment, and in the same time before it. */
export interface ClientEffect {
  /** The length of each, in milliseconds: at most a day. */
  readonly span_ms: number
  /** Whether the time since the moment ends now. */
  readonly until_now: boolean
  readonly before: ClientCounts
  readonly after: ClientCounts
}

interface ClientEffectOptions {
  readonly client: string
  /** The moment in milliseconds since the epoch, not after the present. */
  readonly atMs: number
}

/** Compares the requests of a client before and after a change of what is in force for it. */
export function clientEffect({ client, atMs }: ClientEffectOptions): Report<ClientEffect> {
  return async (snapshot) => {
    const { query, dialect, nowMs } = snapshot
    const span_ms = Math.max(0, Math.min(DAY_MS, nowMs - atMs))
    const startMs = atMs - span_ms
    const isTheirs = await clientCondition(snapshot, client, { since: Math.max(0, startMs) })
    const parameters = new Parameters()
    const at = dialect.fromMs(parameters.add(atMs))
    const rows = await query<ClientCounts & { readonly is_after: number }>(
      `SELECT is_after, ${CLIENT_SUMS} FROM (
         SELECT CASE WHEN "timestamp" >= ${at} THEN 1 ELSE 0 END AS is_after, ${clientEventCounts()}
         FROM ${dialect.table('rate_limit_event')}
         WHERE ${isTheirs(parameters)} AND "timestamp" < ${dialect.fromMs(parameters.add(atMs + span_ms))}
       ) AS counted GROUP BY is_after`,
      parameters.values,
    )
    const countsWhere = (isAfter: number) => {
      const row = rows.find(({ is_after }) => is_after === isAfter) ?? { is_after: isAfter, ...NO_REQUESTS }
      const { is_after: _, ...counts } = row
      return counts
    }
    return { span_ms, until_now: span_ms < DAY_MS, before: countsWhere(0), after: countsWhere(1) }
  }
}
