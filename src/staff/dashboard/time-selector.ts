/** The choice of a time on a page: a form, the times beside the one shown, and whether only refusals are listed. */
import type { ReportWindow } from '../../reports/report-window.js'
import { DEFAULT_DAYS } from '../shell/request-query.js'
import { windowTitle } from './format.js'
import { type Display, SERIES, type Series } from './links.js'
import type { RequestedWindow } from './requested-view.js'
import { rangesBeside, rangeText, timeText } from './time-range.js'

/** A choice of what a page shows: a link, or what it shows. */
export interface Choice {
  readonly text: string
  readonly href: string
  readonly selected: boolean
}

/**
 * Returns the context of the range in `window-selector.hbs`.
 *
 * @param hrefFor returns the address of the same page with another window
 */
export function timeSelector(
  { window, typed }: RequestedWindow,
  nowMs: number,
  hrefFor: (window: ReportWindow) => string,
) {
  const { earlier, later } = rangesBeside(window, nowMs)
  const lastDays: ReportWindow = { days: DEFAULT_DAYS }
  const isRange = window.since !== undefined
  const shown = isRange
    ? { since: timeText(window.since), until: window.until === undefined ? '' : timeText(window.until) }
    : { since: '', until: '' }
  const problem = typed?.problem
  const field = (name: 'since' | 'until') => ({
    value: problem === undefined ? shown[name] : typed?.[name],
    problem: problem?.field === name ? problem.text : undefined,
  })
  return {
    shown: isRange ? rangeText(window) : undefined,
    since_iso: isRange ? new Date(window.since).toISOString() : undefined,
    until_iso: isRange && window.until !== undefined ? new Date(window.until).toISOString() : undefined,
    earlier: earlier && hrefFor(earlier),
    later: later && hrefFor(later),
    back: isRange ? { text: windowTitle(lastDays), href: hrefFor(lastDays) } : undefined,
    is_open: problem !== undefined,
    since: field('since'),
    until: field('until'),
  }
}

/** Returns the choice between all requests and refused ones. */
export function refusedChoices(display: Display, hrefFor: (display: Display) => string): readonly Choice[] {
  const choice = (text: string, onlyRefused: boolean): Choice => ({
    text,
    href: hrefFor({ onlyRefused }),
    selected: onlyRefused === (display.onlyRefused ?? false),
  })
  return [choice('All', false), choice('Only refused', true)]
}

/** Returns the series that a chart shows. */
export function shownSeries({ show, onlyRefused }: Display): readonly Series[] {
  return show ?? (onlyRefused ? ['over_limit', 'denied'] : SERIES)
}

/** Returns what shows or hides one series; of none all are shown again. */
export function toggleSeries(
  display: Display,
  series: Series,
  hrefFor: (display: Display) => string,
): { readonly href: string; readonly hidden: boolean } {
  const shown = shownSeries(display)
  const hidden = !shown.includes(series)
  const next = SERIES.filter((each) => (each === series ? hidden : shown.includes(each)))
  const show = next.length === 0 || (next.length === SERIES.length && !display.onlyRefused) ? undefined : next
  return { href: hrefFor({ ...display, show }), hidden }
}
