import type { Geo } from '../../clients/geo.js'
import { countOf } from '../../ground/number-text.js'
import { REQUESTS } from '../../ground/unit.js'
import type { Explanation } from '../../http/explain/explain.js'
import type { ExplainedLimit } from '../../http/explain/explained-limit.js'
import type { ListedEvent } from '../../reports/listed-events.js'
import type { NamedPolicyThen } from '../../reports/policy-then.js'
import { clampedIsoTime } from '../../reports/report.js'
import type { RequestedTrial } from '../shell/request-query.js'
import { formatCount, formatTime, rateWords, toMoment, visible } from './format.js'
import { clientHref, type KeptView } from './links.js'
import type { RulePageLinks } from './rules/rule-links.js'
import { thenView } from './then-view.js'
import { whereabouts } from './whereabouts.js'

/** The methods that the form offers; any other one can be in the address of the page. */
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']
/** The most limits that do not apply; more are left out. */
const MAX_IDLE = 200

/** A request of the log with the policies that it met, or the news that the log does not have it. */
export type LoggedRequest =
  | { readonly event: ListedEvent; readonly policies: readonly NamedPolicyThen[] }
  | { readonly missing: true }

const MISSING = 'The log does not have that event: it was deleted, or never existed. What decided it is not known.'

const NO_ADDRESS =
  'No address was given: limits for addresses may decide otherwise, and what is used of them is not known.'

/** The part of the page beside the form: an explanation, or why there is none. */
export type Explained = { readonly explanation: Explanation } | { readonly problem: string } | undefined

/**
 * Returns the context of `explain.hbs`.
 *
 * @param logged the request in the log, and by what it was decided; undefined where it is none of the log
 */
export function explainContext(
  trial: RequestedTrial,
  logged: LoggedRequest | undefined,
  explained: Explained,
  { window, back }: KeptView,
  nowMs: number,
  rulePages: RulePageLinks,
  geo: Geo | undefined,
) {
  const { method, path, ip, user, fields, headers } = trial
  return {
    page: {
      title: 'Explain a request',
      subtitle: 'Rate limits',
      form: { path, ip, user, fields, headers },
      clients: [...(ip === '' ? [] : [`ip:${ip}`]), ...(user === '' ? [] : [`user:${user}`])].map((client) => ({
        name: visible(client),
        whereabouts: whereabouts(client, geo),
        href: clientHref(client, window, back),
      })),
      methods: [...new Set([...METHODS, method])].map((name) => ({ name, selected: name === method })),
      request: `${visible(method)} ${visible(path)}`,
      decided: logged && 'event' in logged ? decidedSentence(logged.event) : undefined,
      policies_then:
        logged && 'event' in logged ? logged.policies.map((policy) => thenView(logged.event, policy)) : undefined,
      missing: logged && 'missing' in logged ? MISSING : undefined,
      ...(explained && ('problem' in explained ? explained : limitsView(explained.explanation, ip !== '', rulePages))),
      now: toMoment(nowMs),
    },
  }
}

/** Says what became of a request, as its event says. */
function decidedSentence({ timestampMs, allowed, outcome, policy, count, limit, weight }: ListedEvent): string {
  const like = weight === 1 ? 'this request' : `the last of ${formatCount(weight)} requests that are alike`
  const request = `At ${formatTime(Date.parse(clampedIsoTime(timestampMs)))} UTC ${like}`
  const by = `by ${visible(policy)}`
  if (outcome === 'denied') return `${request} was denied ${by}.`
  if (outcome === 'unavailable') return `${request} was rejected: no store answered for ${visible(policy)}.`
  const would = outcome === 'over_limit' && allowed
  const became = would ? 'would have been refused' : outcome === 'allowed' ? 'was allowed' : 'was refused'
  return `${request} ${became}: ${formatCount(count)} of ${formatCount(limit)} ${by}.`
}

function limitsView(explanation: Explanation, hasAddress: boolean, rulePages: RulePageLinks) {
  const { limits } = explanation
  const shown = limits.filter(({ applies }, index) => applies || index < MAX_IDLE)
  const hidden = limits.length - shown.length
  return {
    answer: explanationSentence(explanation, hasAddress),
    hidden:
      hidden === 0
        ? undefined
        : `${countOf(hidden, 'more limit does', 'more limits do')} not apply, and ${hidden === 1 ? 'is' : 'are'} not listed.`,
    has_groups: shown.some(({ group }) => group !== ''),
    has_standing: shown.some((limit) => standing(limit) !== ''),
    limits: shown.map((limit, index) => ({
      order: index + 1,
      policy: visible(limit.policy),
      href: rulePages.get(limit.policy),
      group: limit.group,
      rate: limit.rate === null ? '' : rateWords(limit.rate, limit.unit),
      applies: limit.applies,
      why: visible(limit.why),
      standing: standing(limit),
    })),
  }
}

/**
 * Returns what decides about the request, and the client's standing, in a sentence or two.
 *
 * @param hasAddress whether the client's address was given
 */
export function explanationSentence(explanation: Explanation, hasAddress: boolean): string {
  const sentence = applyingSentence(explanation) + decisionSentence(explanation)
  return hasAddress ? sentence : `${sentence} ${NO_ADDRESS}`
}

/** Names the limits that a request has to pass, where groups add to the one that there is. */
function applyingSentence({ limits }: Explanation): string {
  const applying = limits.filter(({ applies }) => applies)
  if (!applying.some(({ group }) => group !== '')) return ''
  return `The request has to pass ${applying.map(({ policy }) => visible(policy)).join(', ')}. `
}

function decisionSentence({ decided_by, limits }: Explanation): string {
  if (decided_by === null) return 'No limit checks this request.'
  const decides = `Decided by ${visible(decided_by)}.`
  const decider = limits.find(({ policy, applies }) => applies && policy === decided_by)
  if (decider === undefined) return decides
  // It denies everything, lets it through, or counts as a client that is not known: it says so.
  if (decider.remaining === null) return `${decides} ${visible(decider.why)}`
  const cost = Math.max(1, decider.cost ?? 1)
  const takes = cost === 1 ? '' : `, and the request takes ${formatCount(cost)}`
  const isWithin = decider.remaining >= cost
  const unknown = limits.filter(
    ({ policy, applies, remaining }) => applies && policy !== decided_by && remaining === null,
  )
  if (isWithin && unknown.length > 0) {
    const names = unknown.map(({ policy }) => visible(policy)).join(' and ')
    return `Of ${visible(decided_by)} the client has ${standing(decider)}${takes}. Whether ${names} would refuse the request is not known.`
  }
  return `${decides} The client has ${standing(decider)}${takes}: the request is ${isWithin ? 'within' : 'over'} the limit.`
}

function standing(limit: ExplainedLimit): string {
  const { count, remaining } = limit
  if (count === null || remaining === null) return ''
  return unitLeft(limit) ?? `used ${formatCount(count)}, ${formatCount(remaining)} left`
}

/** Says what is left of a limit of another unit than requests; undefined for requests, and where nothing is counted. */
export function unitLeft({ unit, count, limit, remaining }: ExplainedLimit): string | undefined {
  if (unit === REQUESTS || count === null || limit === null || remaining === null) return undefined
  const debt = count > limit ? `, ${formatCount(count)} used` : ''
  return `${formatCount(remaining)} of ${formatCount(limit)} ${unit} left${debt}`
}
