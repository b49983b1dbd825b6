import { sumTraffic } from '../analytics/breakdown.js'
import type { OverTime } from '../analytics/over-time.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../time/clock.js'
import {
  type AxisLabel,
  type AxisLine,
  chartHeightFor,
  countLines,
  type TimeAxis,
  timeAxis,
  timeLabels,
} from './chart-axes.js'
import { formatCount, formatRate, formatRequests } from './format.js'
import { allRequests, rounded, type StackSegment, stack } from './stack.js'

/** The context of `chart.hbs`: all lengths in percent, so that the chart fits any width and texts keep their size. */
export interface Chart {
  /** Describes the chart in words. */
  readonly description: string
  readonly lines: readonly AxisLine[]
  readonly labels: readonly AxisLabel[]
  readonly bars: readonly ChartBar[]
  /** The length of a bar, in milliseconds. */
  readonly bar_ms: number
  /** What the labels are made of; undefined for bars of whole days, which are days in UTC for every reader. */
  readonly axis: TimeAxis | undefined
  /** The oldest first. */
  readonly marks: readonly ChartMark[]
}

export interface ChartBar {
  readonly x: number
  readonly width: number
  /** From the bottom up; `y` is a part's upper end. */
  readonly segments: readonly (StackSegment & { readonly y: number })[]
  /** The time of the bar, in UTC. */
  readonly time: string
  /** The moment that it begins at. */
  readonly iso: string
  readonly requests: string
  readonly blocked: string
  readonly would_block: string
  readonly denied: string
}

/** A change of a rule or an override, above its moment. */
export interface ChartMark {
  readonly x: number
  readonly text: string
  readonly href: string | undefined
}

/** The share of a bar's slot that is left free before the next one. */
const GAP = 0.2

/** A change, as a mark shows it. */
export interface MarkedChange {
  readonly at_ms: number
  readonly text: string
  readonly href: string | undefined
}

/**
 * Draws the traffic of a window.
 *
 * @param rates whether the blocked share is meaningful
 */
export function drawChart(
  { bar_ms, bars }: OverTime,
  { rates, changes = [] }: { readonly rates: boolean; readonly changes?: readonly MarkedChange[] },
): Chart {
  const most = Math.max(0, ...bars.map(allRequests))
  const startMs = bars[0]?.start_ms ?? 0
  const top = chartHeightFor(most)
  const room = 100 / Math.max(1, bars.length)
  return {
    description: describeTraffic({ bar_ms, bars }, rates),
    lines: countLines(most),
    labels: timeLabels(bars, bar_ms),
    bar_ms,
    axis: bar_ms < DAY_MS ? timeAxis(bars, bar_ms) : undefined,
    bars: bars.map((bar, place) => ({
      x: rounded(room * (place + GAP / 2)),
      width: rounded(room * (1 - GAP)),
      segments: stack(bar, top).map((part) => ({ ...part, y: rounded(100 - part.start - part.length) })),
      time: barTime(bar.start_ms, bar_ms),
      iso: new Date(bar.start_ms).toISOString(),
      requests: formatCount(allRequests(bar)),
      blocked: formatCount(bar.blocked),
      would_block: formatCount(bar.would_block),
      denied: formatCount(bar.denied),
    })),
    marks: changes.map(({ at_ms, text, href }) => ({
      x: rounded(Math.max(0, (100 * (at_ms - startMs)) / (bar_ms * Math.max(1, bars.length)))),
      text,
      href,
    })),
  }
}

/** Describes the traffic in words: totals, outcomes, and the busiest bar. */
function describeTraffic({ bar_ms, bars }: OverTime, rates: boolean): string {
  const sum = sumTraffic(bars)
  const [first] = bars
  if (first === undefined || allRequests(sum) === 0) return 'No requests.'
  const busiest = bars.reduce((most, bar) => (allRequests(bar) > allRequests(most) ? bar : most), first)
  const rate = rates && sum.total > 0 ? ` (${formatRate(sum.blocked / sum.total)})` : ''
  const sentences = [`${formatRequests(allRequests(sum))}, ${formatCount(sum.blocked)}${rate} of them over the limit`]
  if (sum.would_block > 0) sentences.push(`${formatCount(sum.would_block)} would have been`)
  if (sum.denied > 0) sentences.push(`${formatCount(sum.denied)} denied`)
  const time = barTime(busiest.start_ms, bar_ms)
  const most = `${formatRequests(allRequests(busiest))}, ${formatCount(busiest.blocked)} over the limit`
  return `${sentences.join(', ')}. The most in ${barName(bar_ms)}: ${most}, ${time} UTC.`
}

function barName(barMs: number): string {
  if (barMs === DAY_MS) return 'a day'
  if (barMs > DAY_MS) return `${barMs / DAY_MS} days`
  if (barMs < HOUR_MS) return barMs === MINUTE_MS ? 'a minute' : `${barMs / MINUTE_MS} minutes`
  return barMs === HOUR_MS ? 'an hour' : `${barMs / HOUR_MS} hours`
}

/** Formats the time of a bar: `2026-01-15 06:00–12:00`, `2026-01-15`, or `2026-01-15 – 2026-01-21`. */
export function barTime(startMs: number, barMs: number): string {
  const day = isoDay(startMs)
  if (barMs === DAY_MS) return day
  if (barMs > DAY_MS) return `${day} – ${isoDay(startMs + barMs - DAY_MS)}`
  const end = hourText(startMs + barMs)
  return `${day} ${hourText(startMs)}–${end === '00:00' ? '24:00' : end}`
}

function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

function hourText(ms: number): string {
  return new Date(ms).toISOString().slice(11, 16)
}
