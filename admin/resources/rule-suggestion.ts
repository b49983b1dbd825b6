import type { ActionRequest } from 'adminjs'
import type { SuggestedRate, SuggestedRates } from '../../src/analytics/suggested-rates.js'
import { formatCount, formatRequests, visible } from '../../src/dashboard/format.js'
import { requiredPrefix } from '../../src/patterns/required-text.js'
import type { PanelAction } from './actions.js'
import type { ResourceDependencies } from './resource.js'

const DAYS = 7
const NOT_PLAIN =
  'Rates are suggested for patterns that are the beginning of a path, such as ^/login: give such a pattern, or preview the rate that you choose.'

/** A rate for the form, with what it would have refused. */
interface OfferedRate {
  readonly rate: string
  readonly percentile: number
  readonly clients: string
  readonly requests: string
}

/** Creates the action that suggests rates for the rule in the form, from what clients did in the last 7 days. */
export function suggestAction({ limits }: ResourceDependencies): PanelAction {
  async function suggest({ payload = {} }: ActionRequest) {
    const path = pathFor(textOf(payload.pathPattern))
    if (path === undefined) return { sentences: [NOT_PLAIN], rates: [] }
    const methods = textOf(payload.method).toUpperCase()
    // Of several methods the log is read as a whole.
    const method = /^[A-Z]+$/.test(methods) && methods !== 'ALL' ? methods : undefined
    const suggested = await limits.analytics.suggestRates({ path, method, days: DAYS })
    return { sentences: describe(suggested, path, method), rates: offer(suggested) }
  }
  return { actionType: 'resource', isVisible: false, component: false, handler: suggest }
}

/** Returns the beginning of a path, as the log has it, that a pattern matches; undefined for other patterns. */
function pathFor(pattern: string): string | undefined {
  if (['', '.', '^', '^/'].includes(pattern)) return ''
  const required = requiredPrefix(pattern, true)
  return required?.exactly === 'prefix' ? encodeURI(required.prefix) : undefined
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value.trim() : ''
}

function describe(suggested: SuggestedRates, path: string, method: string | undefined): string[] {
  const { clients, requests, sampled } = suggested
  const which = `${method === undefined ? '' : `${method} `}${path === '' ? 'any path' : visible(path)}`
  if (requests === 0) return [`The log has no requests of ${which} in the last ${DAYS} days.`]
  const senders = clients === 1 ? '1 client' : `${formatCount(clients)} clients`
  return [
    `In the last ${DAYS} days ${senders} sent ${formatRequests(requests)} to ${which}.`,
    ...(sampled === null
      ? []
      : [
          `That is in ${formatCount(sampled.hours_read)} of ${formatCount(sampled.hours)} hours, since the log is long.`,
        ]),
    ...(suggested.only_blocked ? ['The log has refusals only: these rates are of clients that were refused.'] : []),
  ]
}

function offer({ per_minute, per_hour }: SuggestedRates): OfferedRate[] {
  return [...per_minute, ...per_hour].map(({ rate, percentile, refused_clients, refused_requests }: SuggestedRate) => ({
    rate,
    percentile,
    clients: formatCount(refused_clients),
    requests: formatCount(refused_requests),
  }))
}
