/** Numbers as people read them. The formats are created when they are used: a server that only limits needs none. */
let counts: Intl.NumberFormat | undefined
let shortCounts: Intl.NumberFormat | undefined
let rates: Intl.NumberFormat | undefined
/** The least share that is shown exactly. */
const LEAST_RATE = 0.001

/** Formats `1234567` as `1,234,567`. */
export function formatCount(count: number): string {
  counts ??= new Intl.NumberFormat('en-US')
  return counts.format(count)
}

/** Formats `1 client`, `2,000 clients`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** Formats `1500` as `1.5K`, for the axis of a chart. */
export function formatShortCount(count: number): string {
  shortCounts ??= new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })
  return shortCounts.format(count)
}

/** Formats a share of 1 as a percentage. Only exactly 0 and 1 become `0%` and `100%`. */
export function formatRate(rate: number): string {
  if (rate === 0) return '0%'
  if (rate === 1) return '100%'
  rates ??= new Intl.NumberFormat('en-US', { style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 })
  if (rate < LEAST_RATE) return `<${rates.format(LEAST_RATE)}`
  if (rate > 1 - LEAST_RATE) return `>${rates.format(1 - LEAST_RATE)}`
  return rates.format(rate)
}
