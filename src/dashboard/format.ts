/** The formats of values on the staff pages. */
export { visible } from '../visible.js'

const COUNT = new Intl.NumberFormat('en-US')
const RATE = new Intl.NumberFormat('en-US', {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
})
const SHORT_COUNT = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })
/** The least share that is shown exactly. */
const LEAST_RATE = 0.001

/** Formats `1234567` as `1,234,567`. */
export function formatCount(count: number): string {
  return COUNT.format(count)
}

/** Formats `1500` as `1.5K`, for the axis of a chart. */
export function formatShortCount(count: number): string {
  return SHORT_COUNT.format(count)
}

/** Formats `1 request`, `2,000 requests`. */
export function formatRequests(count: number): string {
  return count === 1 ? '1 request' : `${formatCount(count)} requests`
}

/** Formats a share of 1 as a percentage. Only exactly 0 and 1 become `0%` and `100%`. */
export function formatRate(rate: number): string {
  if (rate === 0) return '0%'
  if (rate === 1) return '100%'
  if (rate < LEAST_RATE) return `<${RATE.format(LEAST_RATE)}`
  if (rate > 1 - LEAST_RATE) return `>${RATE.format(1 - LEAST_RATE)}`
  return RATE.format(rate)
}

/** Returns the length of a bar, 0 to 100; every value above 0 is visible. */
export function formatBar(value: number, most: number): number {
  return value === 0 ? 0 : Math.max(1, Math.round((100 * value) / most))
}

/** Formats a moment as `2026-01-15 12:00:00`, in UTC, without naming the zone. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ')
}
