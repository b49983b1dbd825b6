/** What came of what was done about an incident: its refusals and denials in equal times before and after. */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../ground/time/clock.js'
import { HOUR_SPAN, KEPT_MINUTES } from '../../log/rollups/counting.js'
import { findFiltered } from '../find-clients.js'
import type { Period } from '../period.js'
import type { LogSnapshot } from '../report.js'
import { countTraffic } from '../traffic.js'
import type { IncidentAction } from './actions.js'
import { type FoundIncident, type RefusedRow, subjectOf } from './incident.js'
import { readIncidents } from './minutes.js'
import { type RangeUnit, unitMs } from './refusal-sums.js'
import type { HourSpan } from './usual.js'

export interface IncidentEffect {
  /** The length of each time, in milliseconds: whole minutes after three of them, and whole hours from an hour and a half on. */
  readonly length_ms: number
  readonly before: EffectCounts
  readonly after: EffectCounts
}

interface EffectCounts extends Pick<RefusedRow, 'refused' | 'denied'> {
  /** Undefined for a time of which they are not read: those of a client are read from the events. */
  readonly allowed: number | undefined
}

/** The longest time of which the allowed requests of clients are read. */
const MOST_ALLOWED_MS = HOUR_MS

/** So short a time is read to the millisecond. */
const BY_EVENTS_MS = 3 * MINUTE_MS
/** For so long the sums of minutes reach as far back. */
const BY_MINUTES = 90
/** Minutes are kept for a moment longer than they are read. */
const MOST_MINUTES = KEPT_MINUTES - 2
const MOST_HOURS = 24

/** Reads the effect of an action; undefined in the first second, and of an incident that is ignored. */
export async function readEffect(
  snapshot: LogSnapshot,
  found: FoundIncident,
  action: IncidentAction | undefined,
): Promise<IncidentEffect | undefined> {
  if (action === undefined || action.what === 'ignored') return undefined
  const times = timesAround(action.at_ms, snapshot.nowMs)
  if (times === undefined) return undefined
  const { span, before, after } = times
  const count = async (range: HourSpan): Promise<EffectCounts> => {
    const period = { startMs: range.from * unitMs(span), endMs: range.to * unitMs(span) }
    const [rows, allowed] = await Promise.all([
      readIncidents(snapshot, [found], span, range),
      readAllowed(snapshot, found, period),
    ])
    return { ...sum(rows(found)), allowed }
  }
  const [countsBefore, countsAfter] = await Promise.all([count(before), count(after)])
  return { length_ms: (after.to - after.from) * unitMs(span), before: countsBefore, after: countsAfter }
}

function sum(rows: readonly RefusedRow[]) {
  return {
    refused: rows.reduce((total, { refused }) => total + refused, 0),
    denied: rows.reduce((total, { denied }) => total + denied, 0),
  }
}

async function readAllowed(snapshot: LogSnapshot, { kind, scope }: FoundIncident, period: Period) {
  // The requests of a policy that is no rule are not told apart by it.
  const { only_blocked, only_sums } = snapshot.coverage
  if (only_blocked || only_sums) return undefined
  if (kind === 'policy' || period.endMs - period.startMs > MOST_ALLOWED_MS) return undefined
  const filter = await findFiltered(snapshot, { key: subjectOf(scope) }, { since: period.startMs })
  const { total, blocked } = await countTraffic(snapshot, period, filter)
  return total - blocked
}

interface TimesAround {
  readonly span: RangeUnit
  readonly before: HourSpan
  readonly after: HourSpan
}

/** Returns equal times around a moment: to the millisecond at first, then in whole minutes or hours. */
function timesAround(atMs: number, nowMs: number): TimesAround | undefined {
  const lengthMs = nowMs - atMs
  if (lengthMs < SECOND_MS) return undefined
  if (lengthMs < BY_EVENTS_MS) {
    const end = Math.floor(atMs) + Math.floor(lengthMs)
    return {
      span: 'ms',
      before: { from: Math.floor(atMs) - Math.floor(lengthMs), to: Math.floor(atMs) },
      after: { from: Math.floor(atMs), to: end },
    }
  }
  const minutes = Math.floor((nowMs - atMs) / MINUTE_MS)
  const byHours = minutes >= BY_MINUTES ? wholeTimes(atMs, nowMs, HOUR_SPAN, MOST_HOURS) : undefined
  return byHours ?? wholeTimes(atMs, nowMs, 1, MOST_MINUTES - minutes)
}

function wholeTimes(atMs: number, nowMs: number, span: 1 | 60, most: number): TimesAround | undefined {
  const [end, start] = [Math.floor(atMs / unitMs(span)), Math.ceil(atMs / unitMs(span))]
  const length = Math.min(most, Math.floor(nowMs / unitMs(span)) - start)
  if (length <= 0) return undefined
  return { span, before: { from: end - length, to: end }, after: { from: start, to: start + length } }
}
