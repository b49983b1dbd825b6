/**
 * The facts of the log about the rule in a form, before it is saved: what it would have refused, and which rates fit.
 */
import type { RulePreview } from '../../../reports/preview/report.js'
import type { SuggestedRate, SuggestedRates, SuggestRatesOptions } from '../../../reports/preview/suggested-rates.js'
import type { Values } from '../../../rules/description.js'
import { requiredPrefix } from '../../../rules/patterns/required-text.js'
import type { RuleCandidate } from '../../../rules/rule.js'
import { drawPreview } from '../chart.js'
import type { FormCheck } from '../entries/entry-form-routes.js'
import { formatCount, formatRequests, visible } from '../format.js'

/** The reports that the checks read. */
export interface RuleReports {
  preview(candidate: RuleCandidate, options: { readonly hours: number }): Promise<RulePreview>
  /** @param isWholePath whether the path of the options is all of it */
  suggest(options: SuggestRatesOptions, isWholePath: boolean): Promise<SuggestedRates>
}

const SHOWN_KEYS = 3
const HOURS = 24
const DAYS = 7
const NOT_PLAIN =
  'Rates are suggested only for patterns that match a path or the beginning of one, such as ^/login$ and ^/api/: give such a pattern, or preview a rate of your choice.'

/** Returns the buttons of the form that save nothing; see `rule-found.hbs`. */
export function ruleChecks(reports: RuleReports): Readonly<Record<string, FormCheck>> {
  return {
    preview: {
      text: 'Preview',
      run: async (values) => {
        return { found: { title: `Preview on the last ${HOURS} hours`, ...(await previewRule(reports, values)) } }
      },
    },
    suggest: {
      text: 'Suggest rates',
      run: async (values) => ({ found: { title: 'Suggested rates', ...(await suggestForRule(reports, values)) } }),
    },
  }
}

/**
 * Returns what a rule would have done to the requests of the last 24 hours, in sentences, the main one first, and a chart.
 *
 * @throws RuleValidationError for wrong fields
 */
export async function previewRule({ preview: previewOf }: RuleReports, values: Values) {
  // The preview validates the candidate, whatever its type.
  const preview = await previewOf(values as unknown as RuleCandidate, { hours: HOURS })
  const { sentence, over_limit, newly_refused } = preview
  const hits = preview.top_keys.filter((key) => key.over_limit > 0).slice(0, SHOWN_KEYS)
  const mostly = hits.map(({ key, over_limit: times }) => `${visible(key)} (${formatCount(times)})`).join(', ')
  const sentences = [
    sentence,
    ...(mostly === '' ? [] : [`Mostly ${mostly}.`]),
    ...(over_limit === 0 ? [] : [`${formatCount(newly_refused)} of the refused ones were allowed at the time.`]),
    ...preview.gaps,
    ...preview.notes,
  ]
  return { sentences, ...(preview.matched > 0 && { chart: drawPreview(preview) }) }
}

/** A rate for the form, with what it would have refused. */
interface OfferedRate {
  readonly rate: string
  readonly percentile: number
  readonly clients: string
  readonly requests: string
}

/** Returns rates for a rule, from what clients did in the last 7 days, and sentences about them. */
export async function suggestForRule(
  { suggest }: RuleReports,
  { pathPattern, method: methods }: Values,
): Promise<{ readonly sentences: readonly string[]; readonly rates: readonly OfferedRate[] }> {
  const found = pathFor(textOf(pathPattern))
  if (found === undefined) return { sentences: [NOT_PLAIN], rates: [] }
  const { path, isWhole } = found
  const methodText = textOf(methods).toUpperCase()
  // The log is read as a whole for several methods.
  const method = /^[A-Z]+$/.test(methodText) && methodText !== 'ALL' ? methodText : undefined
  const suggested = await suggest({ path, method, days: DAYS }, isWhole)
  return { sentences: describeSuggestion(suggested, path, method), rates: offerRates(suggested) }
}

/** Returns the path, or its beginning, as the log has it, that a pattern matches; undefined for other patterns. */
function pathFor(pattern: string): { readonly path: string; readonly isWhole: boolean } | undefined {
  if (['', '.', '^', '^/'].includes(pattern)) return { path: '', isWhole: false }
  const { prefix = '', exactly = null } = requiredPrefix(pattern, true) ?? {}
  return exactly === null ? undefined : { path: encodeURI(prefix), isWhole: exactly === 'whole' }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value.trim() : ''
}

function describeSuggestion(suggested: SuggestedRates, path: string, method: string | undefined): string[] {
  const { clients, requests, sampled } = suggested
  const which = `${method === undefined ? '' : `${method} `}${path === '' ? 'any path' : visible(path)}`
  if (requests === 0) {
    return [
      `The log has no requests of ${which} in the last ${DAYS} days, but for denied ones, and those of clients in an incident, which are left out.`,
    ]
  }
  const senders = clients === 1 ? '1 client' : `${formatCount(clients)} clients`
  return [
    `In the last ${DAYS} days ${senders} sent ${formatRequests(requests)} to ${which}.`,
    'Denied requests, and those of clients in an incident, are left out.',
    ...(sampled === null
      ? []
      : [
          `These are the requests of ${formatCount(sampled.hours_read)} of ${formatCount(sampled.hours)} hours: the log is long, and only a part of it was read.`,
        ]),
    ...(suggested.only_blocked || suggested.only_sums
      ? ['The log has only clients that were refused: these rates are based on clients that were refused.']
      : []),
  ]
}

function offerRates({ per_minute, per_hour }: SuggestedRates): OfferedRate[] {
  // The last of several percentiles with one rate says the most.
  const distinct = new Map([...per_minute, ...per_hour].map((suggested) => [suggested.rate, suggested]))
  return [...distinct.values()].map(({ rate, percentile, refused_clients, refused_requests }: SuggestedRate) => ({
    rate,
    percentile,
    clients: formatCount(refused_clients),
    requests: formatCount(refused_requests),
  }))
}
