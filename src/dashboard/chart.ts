import type { OverTime } from '../analytics/over-time.js'
import { DAY_MS, HOUR_MS } from '../time/clock.js'
import { type AxisLabel, type AxisLine, chartHeightFor, countLines, timeLabels } from './chart-axes.js'
import { formatCount, formatRate, formatRequests } from './format.js'
import { rounded, type StackSegment, stack } from './stack.js'

/** The context of `chart.hbs`: all lengths in percent, so that the chart fits any width and texts keep their size. */
export interface Chart {
  /** Describes the chart in words. */
  readonly description: string
  readonly lines: readonly AxisLine[]
  readonly labels: readonly AxisLabel[]
  readonly bars: readonly ChartBar[]
}

export interface ChartBar {
  readonly x: number
  readonly width: number
  /** From the bottom up; `y` is a part's upper end. */
  readonly segments: readonly (StackSegment & { readonly y: number })[]
  /** The time of the bar, in UTC. */
  readonly time: string
  readonly requests: string
  readonly blocked: string
  readonly would_block: string
}

/** The share of a bar's slot that is left free before the next one. */
const GAP = 0.2

/**
 * Draws the traffic of a window.
 *
 * @param rates whether the blocked share is meaningful
 */
export function drawChart({ bar_ms, bars }: OverTime, { rates }: { readonly rates: boolean }): Chart {
  const most = Math.max(0, ...bars.map(({ total }) => total))
  const top = chartHeightFor(most)
  const room = 100 / Math.max(1, bars.length)
  return {
    description: describeTraffic({ bar_ms, bars }, rates),
    lines: countLines(most),
    labels: timeLabels(bars, bar_ms),
    bars: bars.map((bar, place) => ({
      x: rounded(room * (place + GAP / 2)),
      width: rounded(room * (1 - GAP)),
      segments: stack(bar, top).map((part) => ({ ...part, y: rounded(100 - part.start - part.length) })),
      time: barTime(bar.start_ms, bar_ms),
      requests: formatCount(bar.total),
      blocked: formatCount(bar.blocked),
      would_block: formatCount(bar.would_block),
    })),
  }
}

/** Describes the traffic in words: totals, outcomes, and the busiest bar. */
function describeTraffic({ bar_ms, bars }: OverTime, rates: boolean): string {
  const sum = { total: 0, blocked: 0, would_block: 0 }
  for (const { total, blocked, would_block } of bars) {
    sum.total += total
    sum.blocked += blocked
    sum.would_block += would_block
  }
  const [first] = bars
  if (first === undefined || sum.total === 0) return 'No requests.'
  const busiest = bars.reduce((most, bar) => (bar.total > most.total ? bar : most), first)
  const rate = rates ? ` (${formatRate(sum.blocked / sum.total)})` : ''
  const sentences = [`${formatRequests(sum.total)}, ${formatCount(sum.blocked)}${rate} of them blocked`]
  if (sum.would_block > 0) sentences.push(`${formatCount(sum.would_block)} would have been blocked`)
  const time = barTime(busiest.start_ms, bar_ms)
  const most = `${formatRequests(busiest.total)}, ${formatCount(busiest.blocked)} blocked`
  return `${sentences.join(', ')}. The most in ${barName(bar_ms)}: ${most}, ${time} UTC.`
}

function barName(barMs: number): string {
  if (barMs === DAY_MS) return 'a day'
  if (barMs > DAY_MS) return `${barMs / DAY_MS} days`
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
