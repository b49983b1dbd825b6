import { DAY_MS, HOUR_MS, MINUTE_MS } from '../time/clock.js'
import type { TrafficCounts } from './breakdown.js'
import type { EventFilter } from './filter.js'
import { findFiltered } from './find-filtered.js'
import type { Period } from './period.js'
import type { RecentChange } from './recent-changes.js'
import { countTraffic } from './traffic.js'
import type { LogSnapshot } from './window.js'

/** What a rule decided, or what the client of an override requested, in equal times before and after a change. */
export interface ChangeEffect {
  readonly change: RecentChange
  /** The length of each time, in milliseconds: whole hours, up to a day; whole minutes before an hour is over. */
  readonly length_ms: number
  readonly before: TrafficCounts
  readonly after: TrafficCounts
}

/** Each takes several queries. */
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
  return readEffects(snapshot, ofRules, timesAround, ({ name }) => ({ ...filter, rule: name }))
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
  return readEffects(snapshot, ofOverrides, times, ({ name }, { startMs }) =>
    findFiltered(snapshot, { ...others, key: name }, (snapshot.nowMs - startMs) / DAY_MS),
  )
}

async function readEffects(
  snapshot: LogSnapshot,
  changes: readonly RecentChange[],
  timesFor: typeof timesAround,
  filterFor: (change: RecentChange, before: Period) => EventFilter | Promise<EventFilter>,
): Promise<ChangeEffect[]> {
  const latest = new Map<string, RecentChange>()
  for (const change of changes) if (!latest.has(change.name)) latest.set(change.name, change)
  const effects = [...latest.values()]
    .slice(0, MAX_OF_A_KIND)
    .map(async (change): Promise<ChangeEffect | undefined> => {
      const times = timesFor(change.at_ms, snapshot.nowMs)
      if (times === undefined) return undefined
      const filter = await filterFor(change, times.before)
      const [before, after] = await Promise.all([
        countTraffic(snapshot, times.before, filter),
        countTraffic(snapshot, times.after, filter),
      ])
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
