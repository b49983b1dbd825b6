/** The incidents on top of the dashboard: what goes on or went on, what can be done about it, and what came of that. */

import type { NamedLimit } from '../../../plugin/parts/limits-in-force.js'
import type { IncidentAction, IncidentCause } from '../../../reports/incidents/actions.js'
import { POLICY_SCOPE, subjectOf } from '../../../reports/incidents/incident.js'
import type { IncidentStory } from '../../../reports/incidents/incidents.js'
import { describeChange } from '../changes/change-sentence.js'
import type { QuickActionsFor } from '../client-menu.js'
import { formatCount, spanWords, toMoment, visible } from '../format.js'
import type { OngoingCause } from '../lead.js'
import { backTo, clientHref, keptFields, ruleFormHref, ruleHref, type View } from '../links.js'
import { EVERY_PATH } from '../override-actions.js'
import { actorWords, effectWords } from '../override-words.js'
import { raisedRate } from '../raised-rate.js'
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
  const { id, scope, policies, paths, refused, denied, clients, from, action, effect } = story
  const policy = scope.startsWith(POLICY_SCOPE) ? scope.slice(POLICY_SCOPE.length) : undefined
  const client = policy === undefined ? subjectOf(scope) : undefined
  const back = backTo(view)
  const page = client === undefined ? undefined : clientHref(client, view.window, back)
  const rulePage = policy === undefined ? undefined : rights.rulePages.get(policy)
  const path = paths[0]
  const isOver = story.state === 'over'
  // Nothing can be done about what is over, but a rule for the next time.
  const quick = client === undefined || isOver ? undefined : rights.quickActions(client, undefined, policies)
  const mayAct = rights.token !== undefined && !isOver
  const fromMs = Date.parse(from)
  const isNetwork = scope.includes('/') && policy === undefined
  const cause: OngoingCause | undefined =
    client === undefined || isOver
      ? undefined
      : {
          name: visible(scope),
          href: page,
          refused,
          fromMs,
          denied: quick?.effect === 'deny' ? quick.state : undefined,
        }
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
    // What came of an action has those of its time.
    denied: denied === 0 || effect !== undefined ? '' : `${formatCount(denied)} denied`,
    kind: kindWords(clients, policy !== undefined, isNetwork),
    edit: story.cause && editOf(story.cause, rights.readAtMs),
    until: story.to === null ? undefined : shortMoment(Date.parse(story.to), rights.readAtMs),
    is_open: story.state === 'open',
    is_acted_on: story.state === 'acted_on',
    is_over: isOver,
    may_ignore: mayAct,
    is_ignored: action?.what === 'ignored',
    action: action && {
      words: actionWords(action, client),
      by: actorWords(action.actor, 'by'),
      ...shortMoment(action.at_ms, rights.readAtMs),
    },
    proof: proofWords(story),
    quick,
    cause,
    is_network: isNetwork,
    limit_href: rights.mayMakeRules && policy !== undefined && rulePage && !isOver && limitHref(policy, rights),
    needs_admin: mayAct && !rights.mayMakeRules && policy !== undefined && rulePage !== undefined,
    rule_href,
    has_more: mayAct || rule_href !== undefined,
  }
}

/** Returns the page of a rule with twice its rate. */
function limitHref(policy: string, { limitNamed }: IncidentRights): string {
  const limit = limitNamed(policy)
  return ruleHref(policy, limit && raisedRate(limit.rate, []))
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

/** Says what kind of incident it is: `12 clients of one network`, `one client over its limit`; of a policy, `78 clients`. */
function kindWords(clients: number, isPolicy: boolean, isNetwork: boolean): string {
  if (!isPolicy && !isNetwork) return 'one client over its limit'
  return `${formatCount(clients)} ${clients === 1 ? 'client' : 'clients'}${isNetwork ? ' of one network' : ''}`
}

/** Says what was done to a rule when it began to refuse so much, with the moment. */
function editOf({ at_ms, actor, ...change }: IncidentCause, nowMs: number) {
  const { sentence } = describeChange({ entity: 'rule', action: 'update', ...change })
  const words = sentence.replace(` of rule ${visible(change.name)}`, '')
  return { words: `${actorWords(actor, 'subject')} ${words}`, ...shortMoment(at_ms, nowMs) }
}

/** Says what was done: `Blocked`, `Limited to 240/m for ^/search`, `Changed rule search`; and to whom, where not to all of it. */
function actionWords({ what, name, effect, path }: IncidentAction, client: string | undefined): string {
  if (what === 'ignored') return 'Ignored'
  if (what === 'rule') return `Changed rule ${visible(name)}`
  const done = effect === 'deny' ? 'Blocked' : effectWords(effect)
  const where = path === '' || path === EVERY_PATH ? '' : ` for ${visible(path)}`
  return `${name === client ? done : `${visible(name)}: ${done}`}${where}`
}

/** Says what came of an action: `3 minutes before: 9 allowed, 2,310 refused, 0 denied; 3 minutes since: …`. */
function proofWords({ effect }: IncidentStory): string {
  if (effect === undefined) return ''
  const { length_ms, before, after } = effect
  const hasDenied = before.denied + after.denied > 0
  const words = ({ allowed, refused, denied }: typeof before) =>
    [
      ...(allowed === undefined ? [] : [`${formatCount(allowed)} allowed`]),
      `${formatCount(refused)} refused`,
      ...(hasDenied ? [`${formatCount(denied)} denied`] : []),
    ].join(', ')
  const span = spanWords(length_ms)
  return `${span} before: ${words(before)}; ${span} since: ${words(after)}.`
}
