import type { TrafficSummary } from '../analytics/traffic-summary.js'
import { formatCount, formatRate, formatRequests } from './format.js'
import { type StackSegment, stack } from './stack.js'
import { formatWindowBefore, windowTitle } from './windows.js'

/** A number of a card, with its change. */
export interface Figure {
  readonly label: string
  readonly value: string
  /** The colour in the style sheet. */
  readonly tone?: 'allowed' | 'blocked' | undefined
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
  /** Empty where there is no bar. */
  readonly bar_label: string
  /** The window that it is compared with; empty where there is none. */
  readonly before: string
}

type Counts = Pick<TrafficSummary, 'days' | 'total' | 'allowed' | 'blocked' | 'block_rate'>

/**
 * Returns a window as a card.
 *
 * @param options `before` is the window before it; with `onlyBlocked` the log holds refusals only, and a rate would
 * mislead
 */
export function summary(
  counts: Counts,
  { before, onlyBlocked }: { readonly before?: Counts | undefined; readonly onlyBlocked: boolean },
): Summary {
  const { days, total, blocked } = counts
  const compared = before !== undefined && before.total > 0 ? before : undefined
  return {
    title: windowTitle(days),
    figures: figures(counts, compared, onlyBlocked),
    segments: onlyBlocked ? [] : stack({ total, blocked, would_block: 0 }, total),
    bar_label: onlyBlocked ? '' : barLabel(counts),
    before: before === undefined ? '' : beforeText(before, onlyBlocked),
  }
}

function barLabel({ total, block_rate }: Counts): string {
  return total === 0 ? 'No requests' : `${formatRate(block_rate)} of ${formatRequests(total)} blocked`
}

function figures(now: Counts, before: Counts | undefined, onlyBlocked: boolean): Figure[] {
  const change = (name: 'total' | 'allowed' | 'blocked') => before && toCountChange(now[name], before[name])
  const blocked: Figure = {
    label: 'Blocked',
    value: formatCount(now.blocked),
    tone: now.blocked > 0 ? 'blocked' : undefined,
    change: change('blocked'),
  }
  // With `onlyBlocked`, let-through requests of the log were over a limit that does not block.
  const letThrough = { label: 'Let through', value: formatCount(now.allowed), change: change('allowed') }
  if (onlyBlocked) return [blocked, letThrough]
  return [
    { label: 'Requests', value: formatCount(now.total), change: change('total') },
    {
      label: 'Allowed',
      value: formatCount(now.allowed),
      tone: now.allowed > 0 ? 'allowed' : undefined,
      change: change('allowed'),
    },
    blocked,
    {
      label: 'Block rate',
      value: formatRate(now.block_rate),
      change: before && now.total > 0 ? toRateChange(now.block_rate, before.block_rate) : undefined,
    },
  ]
}

/** Returns the change of a number: `12% more`, `3.4× as many`, `none before`. */
export function toCountChange(now: number, before: number): CountChange {
  if (now === before) return { arrow: '', words: now === 0 ? 'none before' : 'as many' }
  if (before === 0) return { arrow: '▲', words: 'none before' }
  if (now === 0) return { arrow: '▼', words: `${formatCount(before)} before` }
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

function beforeText({ days, total, blocked, block_rate }: Counts, onlyBlocked: boolean): string {
  const when = formatWindowBefore(days)
  if (total === 0) return onlyBlocked ? `Nothing logged in the ${when}` : `No requests in the ${when}`
  const blockedText = `${formatCount(blocked)} blocked`
  if (onlyBlocked) return `Compared with the ${when}: ${blockedText}`
  return `Compared with the ${when}: ${formatRequests(total)}, ${blockedText} (${formatRate(block_rate)})`
}
