import { isPseudonym } from '../../../clients/client-networks.js'
import { DEFAULT_LIMIT, isStaffCounter, parseCounter } from '../../../clients/counter.js'
import type { FoundCounter, FoundWindow } from '../../../limiter/stores/sql/stored-counters.js'
import type { NamedLimit } from '../../../plugin/parts/limits-in-force.js'
import { formatCount, formatTime, spanWords, toMoment, visible } from '../format.js'
import { clientHref } from '../links.js'

export const COUNTERS_PAGE = 'counters.html'
/** The window of the page of a client that the list leads to. */
const CLIENT_WINDOW = { days: 7 }

/** A counter, with its name in this namespace. */
export interface NamedCounter extends FoundCounter {
  readonly name: string
}

export interface CountersView {
  readonly text: string
  readonly counters: readonly NamedCounter[]
  readonly hasMore: boolean
  readonly isFirst: boolean
  readonly nowMs: number
  limitNamed(policy: string): NamedLimit | undefined
}

export function countersHref(text: string, after = ''): string {
  const fields = Object.entries({ q: text, after }).filter(([, value]) => value !== '')
  const query = new URLSearchParams(fields).toString()
  return query === '' ? COUNTERS_PAGE : `${COUNTERS_PAGE}?${query}`
}

/** Returns the context of `counters.hbs`. */
export function countersContext(view: CountersView) {
  const { text, counters, hasMore, isFirst, nowMs } = view
  const last = counters.at(-1)
  return {
    title: 'Counters',
    subtitle: 'Rate limits',
    text,
    is_filtered: text !== '',
    clear_href: COUNTERS_PAGE,
    counters: counters.map((counter) => counterRow(counter, view)),
    pages:
      isFirst && !hasMore
        ? undefined
        : {
            first_href: isFirst ? undefined : countersHref(text),
            next_href: hasMore && last !== undefined ? countersHref(text, last.key) : undefined,
          },
    now: toMoment(nowMs),
  }
}

function counterRow({ key, name, algorithm, windows, expiresAtMs }: NamedCounter, { nowMs, limitNamed }: CountersView) {
  const parsed = parseCounter(name)
  const limit = (parsed?.before ?? name).replace(/\|$/, '')
  const client = parsed?.parts.join('|') ?? ''
  const named = limitNamed(policyOf(limit))
  const isOver = !(expiresAtMs > nowMs)
  return {
    key,
    limit: visible(limitWords(limit)),
    client: visible(client),
    // The log has other names for them.
    client_href: client === '' || isPseudonym(client) ? undefined : clientHref(client, CLIENT_WINDOW),
    used: windows.map((window) => usedWords(window, algorithm)),
    rate: named?.algorithm === algorithm ? visible(named.rate) : '',
    until: momentWords(expiresAtMs),
    is_over: isOver,
    is_staff: isStaffCounter(name),
  }
}

/** Returns the policy as events name it. */
function policyOf(limit: string): string {
  const unescaped = limit.replace(/\\(.)/g, '$1')
  if (unescaped.startsWith('rule:')) return unescaped.slice('rule:'.length)
  return unescaped.startsWith(`${DEFAULT_LIMIT}:`) ? DEFAULT_LIMIT : unescaped
}

const WORDS: readonly (readonly [beginning: string, words: string])[] = [
  ['rule:', 'rule '],
  ['refusals:', 'refusals by rule '],
  ['override:', 'override '],
]

function limitWords(limit: string): string {
  const [beginning, words] = WORDS.find(([each]) => limit.startsWith(each)) ?? ['', '']
  return words + limit.slice(beginning.length).replace(/\\(.)/g, '$1')
}

function usedWords({ periodMs, used, limit }: FoundWindow, algorithm: FoundCounter['algorithm']): string {
  const of = limit === null ? '' : ` of ${formatCount(limit)}`
  if (algorithm === 'concurrency') return `${formatCount(used)} in progress`
  return periodMs > 0 ? `${formatCount(used)}${of} in ${spanWords(periodMs)}` : `${formatCount(used)}${of}`
}

/** Raw SQL may have written a moment that is no time. */
function momentWords(ms: number): string {
  return Number.isNaN(new Date(ms).getTime()) ? 'not a valid time' : `${formatTime(ms)} UTC`
}
