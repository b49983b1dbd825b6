import type { Bar } from '../analytics/over-time.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../time/clock.js'
import { formatShortCount } from './format.js'
import { rounded } from './stack.js'

/** More lines than this are distracting. */
const MAX_LINES = 4
/** More labels than this overlap. */
const MAX_LABELS = 9
/** The distances between labels: easy to read, and multiples of all shorter bar lengths. */
const LABEL_STEPS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12, 24, 2 * 24, 7 * 24, 14 * 24, 28 * 24, 56 * 24].map((hours) => hours * HOUR_MS),
]
/** A label within this distance of an end, in percent, is anchored there. */
const NEAR_AN_END = 4

const MONTH_AND_DAY = new Intl.DateTimeFormat('en-US', { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** A line across the chart; `y` is in percent from the top. */
export interface AxisLine {
  readonly y: number
  readonly label: string
}

/** A moment below the chart; `x` is in percent, `minor` labels are hidden on narrow screens. */
export interface AxisLabel {
  readonly x: number
  readonly anchor: 'start' | 'middle' | 'end'
  readonly text: string
  readonly minor: boolean
}

/** Returns the height of the chart in requests: a round number, no less than the tallest bar. */
export function chartHeightFor(most: number): number {
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
export interface TimeAxis {
  readonly start_ms: number
  readonly span_ms: number
  /** The distance between two labels. */
  readonly step_ms: number
}

export function timeAxis(bars: readonly Pick<Bar, 'start_ms'>[], barMs: number): TimeAxis {
  const span_ms = bars.length * barMs
  const step_ms = LABEL_STEPS_MS.find((step) => step % barMs === 0 && span_ms / step <= MAX_LABELS) ?? span_ms
  return { start_ms: bars[0]?.start_ms ?? 0, span_ms, step_ms }
}

/** Returns the labels below the bars: days, hours or minutes, in UTC. */
export function timeLabels(bars: readonly Pick<Bar, 'start_ms'>[], barMs: number): AxisLabel[] {
  const { step_ms: stepMs } = timeAxis(bars, barMs)
  const labelled = bars.flatMap(({ start_ms }, place) => (start_ms % stepMs === 0 ? [{ start_ms, place }] : []))
  return labelled.map(({ start_ms, place }, number) => {
    const x = rounded((100 * place) / bars.length)
    const anchor = x < NEAR_AN_END ? 'start' : x > 100 - NEAR_AN_END ? 'end' : 'middle'
    return { x, anchor, text: momentLabel(start_ms), minor: number % 2 === 1 }
  })
}

/** Formats a moment as `Jan 15`, or `06:00` within a day. */
function momentLabel(ms: number): string {
  return ms % DAY_MS === 0 ? MONTH_AND_DAY.format(ms) : new Date(ms).toISOString().slice(11, 16)
}
