import { allRequests } from '../../reports/breakdown.js'
import type { Outcomes } from '../../reports/dashboard-report.js'
import type { ReportWindow } from '../../reports/report-window.js'
import type { TrafficSummary } from '../../reports/traffic.js'
import { formatCount, formatRate, formatRequests, formatWindowBefore, windowTitle } from './format.js'
import { type Outcome, type StackSegment, stack } from './stack.js'

/** A number of a card, with its change. */
interface Figure {
  readonly label: string
  readonly value: string
  /** The colour in the style sheet. */
  readonly tone?: Outcome | undefined
  readonly change?: CountChange | undefined
}

/** The change of a number since the window before. The arrow only repeats the words. */
export interface CountChange {
  readonly arrow: '▲' | '▼' | ''
  readonly words: string
}

export interface Summary {
  readonly title: string
  readonly figures: readonly Figure[]
  readonly segments: readonly StackSegment[]
  /** The label; empty where there is no bar. */
  readonly bar_label: string
  /** The window that it is compared with; empty where there is none. */
  readonly before: string
}

/** A window; the seed's reports of a key have neither denials nor would-be refusals. */
type Counts = Pick<TrafficSummary, 'total' | 'allowed' | 'blocked' | 'block_rate'> &
  Partial<Pick<Outcomes, 'would_block' | 'denied'>>

/**
 * Returns a window as a card.
 *
 * @param options `window` is what the counts are of, and `before` what is counted before it; with `onlyBlocked` the log holds refusals only, and a rate would
 * mislead
 */
export function summary(
  counts: Counts,
  {
    window,
    before,
    onlyBlocked,
  }: { readonly window: ReportWindow; readonly before?: Counts | undefined; readonly onlyBlocked: boolean },
): Summary {
  const { total, blocked, would_block = 0, denied = 0 } = counts
  const compared = before !== undefined && requestsOf(before) > 0 ? before : undefined
  return {
    title: windowTitle(window),
    figures: figures(counts, compared, onlyBlocked),
    segments: onlyBlocked ? [] : stack({ total, blocked, would_block, denied }, requestsOf(counts)),
    bar_label: onlyBlocked ? '' : barLabel(counts),
    before: before === undefined ? '' : beforeText(window, before, onlyBlocked),
  }
}

/** Returns all requests, denied ones too. */
function requestsOf({ total, denied = 0 }: Counts): number {
  return allRequests({ total, denied })
}

function barLabel({ total, block_rate, denied = 0 }: Counts): string {
  if (total + denied === 0) return 'No requests'
  const over = `${formatRate(block_rate)} of ${formatRequests(total)} refused`
  return denied === 0 ? over : `${over}, and ${formatCount(denied)} denied`
}

function figures(now: Counts, before: Counts | undefined, onlyBlocked: boolean): Figure[] {
  const figure = (label: string, count: (counts: Counts) => number, tone?: Figure['tone']): Figure => ({
    label,
    value: formatCount(count(now)),
    tone: count(now) > 0 ? tone : undefined,
    change: before && toCountChange(count(now), count(before)),
  })
  const refusals = [
    figure('Refused', ({ blocked }) => blocked, 'refused'),
    ...(now.would_block === undefined
      ? []
      : [figure('Would be refused', ({ would_block = 0 }) => would_block, 'would-be-refused')]),
    ...(now.denied === undefined ? [] : [figure('Denied', ({ denied = 0 }) => denied, 'denied')]),
  ]
  const allowed = ({ allowed }: Counts) => allowed
  // The let-through requests of the log were over a limit that does not block, with `onlyBlocked`.
  if (onlyBlocked) return now.would_block === undefined ? [...refusals, figure('Let through', allowed)] : refusals
  return [
    figure('Requests', requestsOf),
    figure('Allowed', allowed, 'allowed'),
    ...refusals,
    {
      label: 'Refusal rate',
      value: formatRate(now.block_rate),
      change: before && now.total > 0 && before.total > 0 ? toRateChange(now.block_rate, before.block_rate) : undefined,
    },
  ]
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

/** Returns the change of a share, in percentage points. */
export function toRateChange(now: number, before: number): CountChange {
  const points = Math.round(1000 * Math.abs(now - before)) / 10
  if (points === 0) return { arrow: '', words: 'about the same' }
  const words = points === 1 ? '1 point' : `${points} points`
  return now > before ? { arrow: '▲', words: `${words} more` } : { arrow: '▼', words: `${words} less` }
}

/** Formats a ratio, below 10 with one decimal. */
function formatRatio(ratio: number): string {
  return formatCount(ratio < 10 ? Math.round(10 * ratio) / 10 : Math.round(ratio))
}

function beforeText(window: ReportWindow, before: Counts, onlyBlocked: boolean): string {
  const { blocked, block_rate, denied = 0 } = before
  const when = formatWindowBefore(window)
  if (requestsOf(before) === 0) return onlyBlocked ? `Nothing logged in the ${when}` : `No requests in the ${when}`
  const over = `${formatCount(blocked)} refused`
  const rate = onlyBlocked ? '' : ` (${formatRate(block_rate)})`
  const parts = [...(onlyBlocked ? [] : [formatRequests(requestsOf(before))]), over + rate]
  if (denied > 0) parts.push(`${formatCount(denied)} denied`)
  return `Compared with the ${when}: ${parts.join(', ')}`
}
