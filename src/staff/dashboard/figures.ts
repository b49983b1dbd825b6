/** The few numbers above a chart, which are its legend too: what became of the requests. */
import { formatCount, formatRate } from './format.js'
import type { Series } from './links.js'
import type { Outcome } from './stack.js'
import type { toggleSeries } from './time-selector.js'

/** A number of `figures.hbs`. */
export interface Figure extends Partial<ReturnType<typeof toggleSeries>> {
  readonly label: string
  readonly value: string
  /** The share of all requests; empty where it would mislead, or says nothing. */
  readonly share: string
  /** The colour in the style sheet; undefined for the sum of all. */
  readonly outcome?: Outcome
  readonly change?: CountChange | undefined
}

/** The change of a number since the window before. The arrow only repeats the words. */
export interface CountChange {
  readonly arrow: '▲' | '▼' | ''
  readonly words: string
}

export type OutcomeCounts = Readonly<Record<Outcome, number>>

interface FigureOptions {
  /** The counts of the window before; undefined where nothing is compared. */
  readonly before?: OutcomeCounts | undefined
  /** Whether the log holds refusals only: the sum of all, and shares of it, are then unknown. */
  readonly onlyBlocked: boolean
  /** Returns what shows and hides a series of the chart; without it the numbers are no links. */
  readonly toggle?: (series: Series) => ReturnType<typeof toggleSeries>
}

const OUTCOMES: readonly (readonly [Outcome, Series, label: string])[] = [
  ['allowed', 'allowed', 'Allowed'],
  ['refused', 'over_limit', 'Refused'],
  ['would-be-refused', 'would_be', 'Would be refused'],
  ['denied', 'denied', 'Denied'],
]

/** Returns all requests and their outcomes; an outcome that no request had is left out. */
export function figures(now: OutcomeCounts, { before, onlyBlocked, toggle }: FigureOptions): Figure[] {
  const all = allOf(now)
  const compared = before !== undefined && allOf(before) > 0 ? before : undefined
  const outcomes = OUTCOMES.filter(([outcome]) => now[outcome] > 0).map(([outcome, series, label]): Figure => {
    return {
      label,
      value: formatCount(now[outcome]),
      share: onlyBlocked ? '' : formatRate(now[outcome] / all),
      outcome,
      change: compared && toCountChange(now[outcome], compared[outcome]),
      ...toggle?.(series),
    }
  })
  if (onlyBlocked) return outcomes
  const change = compared && toCountChange(all, allOf(compared))
  return [{ label: 'Requests', value: formatCount(all), share: '', change }, ...outcomes]
}

function allOf(counts: OutcomeCounts): number {
  return OUTCOMES.reduce((sum, [outcome]) => sum + counts[outcome], 0)
}

/** Larger ratios say little: of few requests almost anything is a multiple. */
const MOST_TIMES = 100

/** Returns the change of a number: `12% more`, `3.4× as many`, `7 before`, `none before`. */
export function toCountChange(now: number, before: number): CountChange {
  if (now === before) return { arrow: '', words: now === 0 ? 'none before' : 'as many' }
  if (before === 0) return { arrow: '▲', words: 'none before' }
  if (now === 0) return { arrow: '▼', words: `${formatCount(before)} before` }
  if (now >= MOST_TIMES * before) return { arrow: '▲', words: `${formatCount(before)} before` }
  if (now >= 2 * before) return { arrow: '▲', words: `${formatRatio(now / before)}× as many` }
  const percent = Math.round((100 * Math.abs(now - before)) / before)
  const share = percent === 0 ? '<1%' : percent === 100 ? '>99%' : `${percent}%`
  return now > before ? { arrow: '▲', words: `${share} more` } : { arrow: '▼', words: `${share} fewer` }
}

/** Formats a ratio, below 10 with one decimal. */
function formatRatio(ratio: number): string {
  return formatCount(ratio < 10 ? Math.round(10 * ratio) / 10 : Math.round(ratio))
}
