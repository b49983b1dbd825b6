import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { isoDay } from '../../ground/time/iso-time.js'
import { allRequests, sumTraffic, type TrafficCounts } from '../../reports/breakdown.js'
import type { RefusedOverTime } from '../../reports/clients-over-time.js'
import type { Bar, OverTime } from '../../reports/over-time.js'
import type { RulePreview } from '../../reports/preview/report.js'
import type { TimeRange } from '../../reports/report-window.js'
import { countWords, formatCount, formatRate, formatRequests, formatShortCount } from './format.js'
import { SERIES, type Series } from './links.js'
import { rounded, type StackSegment, stack } from './stack.js'

/** The context of `chart.hbs`: all lengths in percent, so that the chart fits any width and texts keep their size. */
export interface Chart {
  /** Describes the chart in words. */
  readonly description: string
  readonly lines: readonly AxisLine[]
  readonly labels: readonly AxisLabel[]
  readonly bars: readonly ChartBar[]
  /** The length of a bar, in milliseconds. */
  readonly bar_ms: number
  /**
   * The axis of which the labels are made; undefined for bars of whole days, which are days in UTC for every reader.
   */
  readonly axis: TimeAxis | undefined
  /** The oldest first. */
  readonly marks: readonly ChartMark[]
  /** The moments of its ends, in milliseconds, and the page of all that is between; undefined where no part of it has one. */
  readonly range: { readonly start_ms: number; readonly span_ms: number; readonly href: string } | undefined
}

interface ChartBar {
  readonly x: number
  readonly width: number
  /** The segments from the bottom up; `y` is the upper end of one. */
  readonly segments: readonly (StackSegment & { readonly y: number })[]
  /** The time of the bar, in UTC. */
  readonly time: string
  /** The moment that it begins at. */
  readonly iso: string
  /** The page of what is in the bar; undefined where there is none. */
  readonly href: string | undefined
  /** Whether the bar has the present, and grows. */
  readonly so_far: boolean
  /** What is in the bar, in words. */
  readonly counts: string
  readonly requests: string
  readonly blocked: string
  readonly would_block: string
  readonly denied: string
}

/** A change of a rule or an override, above its moment. */
interface ChartMark {
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

/** The options of drawing a chart. */
export interface ChartOptions {
  /** Whether the blocked share is meaningful. */
  readonly rates: boolean
  readonly changes?: readonly MarkedChange[]
  /** The series that are drawn; the description and the table have all. */
  readonly series?: readonly Series[]
  /** Whether the window has ended: otherwise its last bar has the present. */
  readonly hasEnded?: boolean
  readonly pages?: ChartPages
}

/** The pages that a chart leads to. */
interface ChartPages {
  readonly ofRange: (range: TimeRange) => string
  /** The page of a minute, of which there are no smaller bars. */
  readonly ofMinute: (range: TimeRange) => string
}

/** Draws the traffic of a window. */
export function drawChart(
  { bar_ms, bars }: OverTime,
  { rates, changes = [], series = SERIES, hasEnded = false, pages }: ChartOptions,
): Chart {
  const drawn = bars.map((bar) => limitTo(bar, series))
  const most = Math.max(0, ...drawn.map(allRequests))
  const startMs = bars[0]?.start_ms ?? 0
  const top = chartHeightFor(most)
  const room = 100 / Math.max(1, bars.length)
  const pageOf = (range: TimeRange) => (bar_ms <= MINUTE_MS ? pages?.ofMinute(range) : pages?.ofRange(range))
  return {
    description: describeTraffic({ bar_ms, bars }, rates),
    lines: countLines(most),
    labels: timeLabels(bars, bar_ms),
    bar_ms,
    axis: bar_ms < DAY_MS ? timeAxis(bars, bar_ms) : undefined,
    bars: bars.map((bar, index) => ({
      x: rounded(room * (index + GAP / 2)),
      width: rounded(room * (1 - GAP)),
      segments: stack(drawn[index] ?? bar, top).map((part) => ({
        ...part,
        y: rounded(100 - part.start - part.length),
      })),
      time: barTime(bar.start_ms, bar_ms),
      iso: new Date(bar.start_ms).toISOString(),
      href: pageOf({ since: bar.start_ms, until: bar.start_ms + bar_ms }),
      so_far: !hasEnded && index === bars.length - 1,
      counts: countWords(bar),
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
    range: pages && {
      start_ms: startMs,
      span_ms: bars.length * bar_ms,
      href: pages.ofRange({ since: startMs, until: startMs + bars.length * bar_ms }),
    },
  }
}

/** Returns the counts of the series that are drawn, and none of the others. */
function limitTo({ total, blocked, would_block, denied }: TrafficCounts, series: readonly Series[]): TrafficCounts {
  const of = (name: Series, count: number) => (series.includes(name) ? count : 0)
  const shown = {
    blocked: of('over_limit', blocked),
    would_block: of('would_be', would_block),
    denied: of('denied', denied),
  }
  return { ...shown, total: shown.blocked + shown.would_block + of('allowed', total - blocked - would_block) }
}

/** Describes the traffic in words: totals, outcomes, and the busiest bar. */
function describeTraffic({ bar_ms, bars }: OverTime, rates: boolean): string {
  const sum = sumTraffic(bars)
  const [first] = bars
  if (first === undefined || allRequests(sum) === 0) return 'No requests.'
  const busiest = bars.reduce((most, bar) => (allRequests(bar) > allRequests(most) ? bar : most), first)
  const rate = rates && sum.total > 0 ? ` (${formatRate(sum.blocked / sum.total)})` : ''
  const sentences = [`${formatRequests(allRequests(sum))}, ${formatCount(sum.blocked)}${rate} of them refused`]
  if (sum.would_block > 0) sentences.push(`${formatCount(sum.would_block)} would be refused`)
  if (sum.denied > 0) sentences.push(`${formatCount(sum.denied)} denied`)
  const time = barTime(busiest.start_ms, bar_ms)
  const most = `${formatRequests(allRequests(busiest))}, ${formatCount(busiest.blocked)} refused`
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

function hourText(ms: number): string {
  return new Date(ms).toISOString().slice(11, 16)
}

/** The most lines: more are distracting. */
const MAX_LINES = 4
/** The most labels: more overlap. */
const MAX_LABELS = 9
/** The distances between labels: easy to read, and multiples of all shorter bar lengths. */
const LABEL_STEPS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12, 24, 2 * 24, 7 * 24, 14 * 24, 28 * 24, 56 * 24].map((hours) => hours * HOUR_MS),
]
/** A label before `start` or after `end`, in percent, is anchored there. Half a label fits before the first bar. */
const NEAR = { start: 1, end: 96 } as const

const MONTH_AND_DAY = new Intl.DateTimeFormat('en-US', { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** A line across the chart; `y` is in percent from the top. */
interface AxisLine {
  readonly y: number
  readonly label: string
}

/** A moment below the chart; `x` is in percent, `minor` labels are hidden on narrow screens. */
interface AxisLabel {
  readonly x: number
  readonly anchor: 'start' | 'middle' | 'end'
  readonly text: string
  readonly minor: boolean
}

/** Returns the height of the chart in requests: a round number, no less than the tallest bar. */
function chartHeightFor(most: number): number {
  return lineDistance(most) * Math.max(1, Math.ceil(most / lineDistance(most)))
}

/** Returns the lines at 0 and a few round numbers of requests. */
export function countLines(most: number): AxisLine[] {
  const top = chartHeightFor(most)
  const distance = lineDistance(most)
  const lines = Math.round(top / distance)
  return Array.from({ length: lines + 1 }, (_, line) => ({
    y: rounded(100 - (100 * line) / lines),
    label: formatShortCount(line * distance),
  }))
}

/** Returns the least of 1, 2, 5, 10, 20, … that makes few enough lines. */
function lineDistance(most: number): number {
  let power = 1
  while (power * 10 * MAX_LINES < most) power *= 10
  return [1, 2, 5].map((digit) => digit * power).find((distance) => distance * MAX_LINES >= most) ?? 10 * power
}

/** The times below the bars, in milliseconds: `live.js` makes labels of them in the reader's time zone. */
interface TimeAxis {
  readonly start_ms: number
  readonly span_ms: number
  /** The distance between two labels. */
  readonly step_ms: number
}

function timeAxis(bars: readonly Pick<Bar, 'start_ms'>[], barMs: number): TimeAxis {
  const span_ms = bars.length * barMs
  const step_ms = LABEL_STEPS_MS.find((step) => step % barMs === 0 && span_ms / step <= MAX_LABELS) ?? span_ms
  return { start_ms: bars[0]?.start_ms ?? 0, span_ms, step_ms }
}

/** Returns the labels below the bars: days, hours or minutes, in UTC. */
export function timeLabels(bars: readonly Pick<Bar, 'start_ms'>[], barMs: number): AxisLabel[] {
  const { step_ms: stepMs } = timeAxis(bars, barMs)
  const labelled = bars.flatMap(({ start_ms }, index) => (start_ms % stepMs === 0 ? [{ start_ms, index }] : []))
  return labelled.map(({ start_ms, index }, number) => {
    const x = rounded((100 * index) / bars.length)
    const anchor = x < NEAR.start ? 'start' : x > NEAR.end ? 'end' : 'middle'
    return { x, anchor, text: momentLabel(start_ms), minor: number % 2 === 1 }
  })
}

/** Formats a moment as `Jan 15`, or `06:00` within a day. */
function momentLabel(ms: number): string {
  return ms % DAY_MS === 0 ? MONTH_AND_DAY.format(ms) : new Date(ms).toISOString().slice(11, 16)
}

/** The least height of a part above 0, in percent. */
const LEAST_HEIGHT = 8

/** A small chart of when a client was refused: paths in a box one unit wide per bar, and 100 high. */
export interface Sparkline {
  readonly columns: number
  readonly over_limit: string
  /** The denied requests on top of the others; empty without denials. */
  readonly denied: string
  /** Describes the chart in words. */
  readonly description: string
}

export function drawSparkline({ bar_ms, bars }: RefusedOverTime): Sparkline {
  const sums = bars.map(({ over_limit, denied }) => over_limit + denied)
  const most = Math.max(1, ...sums)
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(LEAST_HEIGHT, (100 * count) / most))
  const drawn = bars.map(({ over_limit, denied }, index) => {
    const [over, above] = [heightOf(over_limit), heightOf(denied)]
    // The height that the least heights add must not leave the box.
    const scale = Math.min(1, 100 / (over + above))
    return {
      over_limit: column(index, 0, over * scale),
      denied: column(index, over * scale, above * scale),
    }
  })
  const busiest = bars[sums.indexOf(most)]
  return {
    columns: bars.length,
    over_limit: drawn.map((each) => each.over_limit).join(''),
    denied: drawn.map((each) => each.denied).join(''),
    description:
      busiest === undefined
        ? 'Never refused'
        : `At most ${outcomeWords(busiest)}, ${barTime(busiest.start_ms, bar_ms)} UTC`,
  }
}

function column(index: number, from: number, height: number): string {
  return height === 0 ? '' : `M${index} ${rounded(100 - from)}v-${rounded(height)}h.9v${rounded(height)}z`
}

function outcomeWords({ over_limit, denied }: RefusedOverTime['bars'][number]): string {
  const parts = [
    ...(over_limit > 0 ? [`${formatCount(over_limit)} refused`] : []),
    ...(denied > 0 ? [`${formatCount(denied)} denied`] : []),
  ]
  return parts.join(' and ')
}

/** Draws the hours of a preview: the requests that the rule matches, by what it would have done with them. */
export function drawPreview({ by_hour, sentence }: RulePreview): Chart {
  const bars = by_hour.map(({ hour, matched, over_limit, would_refuse }) => ({
    start_ms: Date.parse(hour),
    total: matched,
    blocked: would_refuse,
    would_block: over_limit - would_refuse,
    denied: 0,
  }))
  return { ...drawChart({ bar_ms: HOUR_MS, bars }, { rates: true }), description: sentence }
}
