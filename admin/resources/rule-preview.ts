import type { ActionRequest } from 'adminjs'
import { RuleValidationError } from '../../src/ground/errors.js'
import type { RulePreview } from '../../src/reports/preview/report.js'
import type { SuggestedRate, SuggestedRates } from '../../src/reports/suggested-rates.js'
import { requiredPrefix } from '../../src/rules/patterns/required-text.js'
import { RULES, type RuleCandidate } from '../../src/rules/rule.js'
import { drawPreview } from '../../src/staff/dashboard/chart.js'
import { formatCount, formatRequests, visible } from '../../src/staff/dashboard/format.js'
import type { PanelAction } from './actions.js'
import type { ResourceDependencies } from './resource.js'

const SHOWN_KEYS = 3

/** Creates the action that previews the rule in the form over the requests of the last day. */
export function previewAction({ limits }: ResourceDependencies): PanelAction {
  async function preview({ payload = {} }: ActionRequest) {
    try {
      const result = await limits.rules.preview(toCandidate(payload), { hours: 24 })
      return { sentences: describe(result), ...(result.matched > 0 && { chart: drawPreview(result) }) }
    } catch (error) {
      if (!(error instanceof RuleValidationError)) throw error
      return { sentences: [], errors: error.errors }
    }
  }
  return { actionType: 'resource', isVisible: false, component: false, handler: preview }
}

function toCandidate(payload: Readonly<Record<string, unknown>>): RuleCandidate {
  const given = Object.entries(RULES.fields).flatMap(([name, { kind }]) => {
    const value = payload[name]
    if (value === undefined) return []
    return [[name, kind === 'integer' ? Number(value) : value]]
  })
  // The preview validates the candidate, whatever its type.
  return Object.fromEntries(given) as RuleCandidate
}

/** Returns the preview of the last 24 hours in sentences, the main one first. */
function describe(preview: RulePreview): string[] {
  const { sentence, over_limit, newly_refused, uncovered } = preview
  const hits = preview.top_keys.filter((key) => key.over_limit > 0).slice(0, SHOWN_KEYS)
  const mostly = hits.map(({ key, over_limit: times }) => `${visible(key)} (${formatCount(times)})`).join(', ')
  return [
    sentence,
    ...(mostly === '' ? [] : [`Mostly ${mostly}.`]),
    ...(over_limit === 0 ? [] : [`${formatCount(newly_refused)} of the refused ones were allowed at the time.`]),
    ...(uncovered.count > 0 ? [`${formatCount(uncovered.count)} could not be replayed.`] : []),
    ...preview.gaps,
    ...preview.notes,
  ]
}

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
    return { sentences: describeSuggestion(suggested, path, method), rates: offer(suggested) }
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

function describeSuggestion(suggested: SuggestedRates, path: string, method: string | undefined): string[] {
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
