/** The incidents on top of the dashboard: what goes on or went on, what can be done about it, and what came of that. */

import type { NamedLimit } from '../../../plugin/internals.js'
import type { IncidentAction } from '../../../reports/incidents/actions.js'
import { POLICY_SCOPE, subjectOf } from '../../../reports/incidents/incident.js'
import type { IncidentStory } from '../../../reports/incidents/incidents.js'
import type { QuickActions, QuickActionsFor } from '../client-menu.js'
import { raiseFormHref, twice } from '../client-offer.js'
import { formatCount, spanWords, toMoment, visible } from '../format.js'
import type { OngoingCause } from '../lead.js'
import { backTo, clientHref, keptFields, ruleFormHref, ruleHref, type View } from '../links.js'
import type { RulePageLinks } from '../rules/rule-links.js'

/** What whoever sees the page may do about incidents. */
export interface IncidentRights {
  /** Of the forms; undefined for staff who may not act. */
  readonly token: string | undefined
  readonly mayMakeRules: boolean
  readonly rulePages: RulePageLinks
  readonly quickActions: QuickActionsFor
  limitNamed(policy: string): NamedLimit | undefined
  /** When the incidents were read. */
  readonly readAtMs: number
}

/** The most paths that a sentence names. */
const MAX_PATHS = 2

/** Returns incidents for the page; those that somebody ignores are listed apart. */
export function incidentViews(stories: readonly IncidentStory[], view: View, rights: IncidentRights) {
  const shown = stories.map((story) => incidentView(story, view, rights))
  return {
    listed: shown.filter(({ is_ignored }) => !is_ignored),
    ignored: shown.filter(({ is_ignored }) => is_ignored),
    token: rights.token,
    kept: keptFields({ window: view.window, back: backTo(view) }),
  }
}

function incidentView(story: IncidentStory, view: View, rights: IncidentRights) {
  const { id, scope, policies, paths, refused, denied, clients, from, action } = story
  const policy = scope.startsWith(POLICY_SCOPE) ? scope.slice(POLICY_SCOPE.length) : undefined
  const client = policy === undefined ? subjectOf(scope) : undefined
  const back = backTo(view)
  const page = client === undefined ? undefined : clientHref(client, view.window, back)
  const rulePage = policy === undefined ? undefined : rights.rulePages.get(policy)
  const path = paths[0]
  const isOver = story.state === 'over'
  // Nothing can be done about what is over, but a rule for the next time.
  const quick = client === undefined || isOver ? undefined : rights.quickActions(client)
  const mayAct = rights.token !== undefined && !isOver
  const fromMs = Date.parse(from)
  const cause: OngoingCause | undefined =
    client === undefined || isOver ? undefined : { name: visible(scope), href: page, refused, fromMs }
  const ofClient = client === undefined ? undefined : { client, fromMs }
  const rule_href =
    rights.mayMakeRules && path !== undefined ? ruleFormHref(view.window, { path }, ofClient) : undefined
  return {
    id,
    scope: visible(scope),
    name: policy === undefined ? visible(scope) : `Policy ${visible(policy)}`,
    href: page ?? rulePage,
    since: shortMoment(fromMs, rights.readAtMs),
    paths: pathWords(paths),
    policies: policies.map(visible).join(', '),
    refused: `${formatCount(refused)} refused`,
    denied: denied === 0 ? '' : `${formatCount(denied)} denied`,
    clients: clients === 1 ? '' : `${formatCount(clients)} clients`,
    until: story.to === null ? undefined : shortMoment(Date.parse(story.to), rights.readAtMs),
    is_open: story.state === 'open',
    is_over: isOver,
    may_ignore: mayAct,
    is_ignored: action?.what === 'ignored',
    action: action && { words: actionWords(action), ...shortMoment(action.at_ms, rights.readAtMs) },
    proof: proofWords(story),
    quick,
    cause,
    is_network: scope.includes('/') && policy === undefined,
    raise_href: mayAct && client !== undefined && raiseHref(client, story, quick, rights, view),
    limit_href: rights.mayMakeRules && policy !== undefined && rulePage && !isOver && limitHref(policy, rights),
    rule_href,
    has_more: mayAct || rule_href !== undefined,
  }
}

/**
 * Returns where a client is let through more: the form of an override of the limit that refused it most; where none can
 * stand for that limit, or something is in force, the page of the client.
 */
function raiseHref(
  client: string,
  { policies: [most] }: IncidentStory,
  quick: QuickActions | undefined,
  { limitNamed }: IncidentRights,
  view: View,
): string {
  const form = most === undefined || quick?.state !== undefined ? undefined : raiseFormHref(client, most, limitNamed)
  return form ?? `${clientHref(client, view.window, backTo(view))}#actions`
}

/** Returns the page of a rule with twice its rate. */
function limitHref(policy: string, { limitNamed }: IncidentRights): string {
  const limit = limitNamed(policy)
  return ruleHref(policy, limit && twice(limit.rate))
}

/** Returns a moment to the minute, of the present day without the day. */
function shortMoment(ms: number, nowMs: number) {
  const { iso, time } = toMoment(ms)
  const [day = '', clock = ''] = time.split(' ')
  const minute = clock.slice(0, 'hh:mm'.length)
  const is_today = toMoment(nowMs).time.startsWith(day)
  return { iso, time: is_today ? minute : `${day} ${minute}`, is_today }
}

/** Names paths: `/search`, `/search and /login`, `/search, /login and 3 more`. */
function pathWords(paths: readonly string[]): string {
  const named = paths.slice(0, MAX_PATHS).map(visible)
  const more = paths.length - named.length
  return more === 0 ? named.join(' and ') : `${named.join(', ')} and ${more} more`
}

function actionWords({ what, name }: IncidentAction): string {
  if (what === 'ignored') return name === '' ? 'Ignored' : `Ignored by ${visible(name)}`
  return what === 'rule' ? `Rule ${visible(name)} was changed` : `An override of ${visible(name)} was written`
}

/** Says what came of an action: `5 refused and 1,204 denied in the 3 minutes since, 2,310 and 0 in the 3 minutes before`. */
function proofWords({ effect }: IncidentStory): string {
  if (effect === undefined) return ''
  const { length_ms, before, after } = effect
  const words = ({ refused, denied }: typeof before) => `${formatCount(refused)} refused, ${formatCount(denied)} denied`
  const span = spanWords(length_ms)
  return `${span} before: ${words(before)}; ${span} since: ${words(after)}.`
}
