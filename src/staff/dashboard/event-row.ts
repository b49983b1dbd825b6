import type { Geo } from '../../clients/geo.js'
import { parseAppliedRules } from '../../log/applied-rules.js'
import type { ClientEvent } from '../../reports/listed-events.js'
import { formatCount, formatRequests, toMoment, visible } from './format.js'
import { clientHref, explainHref, type KeptView } from './links.js'
import { whereabouts } from './whereabouts.js'

const DECISIONS: Readonly<Record<string, readonly [decision: string, text: string]>> = {
  allowed: ['allowed', 'Allowed'],
  denied: ['denied', 'Denied'],
  unavailable: ['unavailable', 'No store answered'],
}

const REFUSED = ['refused', 'Refused'] as const
const WOULD_BE_REFUSED = ['would-be-refused', 'Would be refused'] as const

/** Returns an event as the tables of requests show it, with the links to its client and to why it was decided so. */
export function eventRow(event: ClientEvent, kept: KeptView, geo: Geo | undefined) {
  const overLimit = event.allowed ? WOULD_BE_REFUSED : REFUSED
  const [decision, decision_text] = DECISIONS[event.outcome] ?? overLimit
  return {
    ...toMoment(Date.parse(event.timestamp)),
    decision,
    decision_text: timesText(decision_text, event.weight),
    method: visible(event.method),
    path: visible(event.path),
    client: visible(event.client),
    whereabouts: whereabouts(event.client, geo),
    client_href: clientHref(event.client, kept.window, kept.back),
    why_href: explainHref(event, kept, event.id),
    usage: event.outcome === 'denied' ? '' : `${formatCount(event.count)} of ${formatCount(event.limit)}`,
    policy: visible(event.policy),
    also: parseAppliedRules(event.rules)
      .filter(({ name }) => name !== event.policy)
      .map(({ name, isRefused }) => ({ name: visible(name), is_refused: isRefused })),
  }
}

interface Weighing {
  /** 1 unless given. */
  readonly weight?: number
}

/** Returns how many requests some rows stand for, and how many rows they are where a row stands for several. */
export function requestsText(rows: readonly Weighing[], what = ''): string {
  const requests = rows.reduce((sum, { weight = 1 }) => sum + weight, 0)
  const inRows =
    requests === rows.length ? '' : `, in ${rows.length === 1 ? '1 row' : `${formatCount(rows.length)} rows`}`
  return `${formatRequests(requests, what)}${inRows}`
}

/** Returns the heading of the latest rows of a client or a key. */
export function latestTitle(rows: readonly Weighing[], what = ''): string {
  return `Latest ${requestsText(rows, what)}`.replace(/^Latest 1 (?=\D*request$)/, 'Latest ')
}

/** Returns what was decided, and how often where a row stands for several requests. */
export function timesText(decision: string, weight = 1): string {
  return weight === 1 ? decision : `${decision} × ${formatCount(weight)}`
}
