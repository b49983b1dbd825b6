import { countOf } from '../../../ground/number-text.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import type { CodeLimit } from '../../../http/code-limits.js'
import { NO_TRAFFIC } from '../../../reports/breakdown.js'
import type { RuleActivity } from '../../../reports/rule-traffic.js'
import { formatCount, rateWords, toMoment, visible } from '../format.js'
import { type LogState, logNotices, logsOnlyBlocked } from '../log-state.js'
import {
  isNarrowed,
  RULE_EFFECTS,
  RULE_ORDERS,
  RULE_STATES,
  type RuleListing,
  type RuleOrder,
  type RulePage,
} from './list-rules.js'
import { idle, isInForce, listedRule } from './listed-rule.js'

export const RULE_LIST = 'rules.html'

/** The view that the address asks for. */
export interface RuleListView {
  readonly listing: RuleListing
  readonly page: number
  /** Whether all boxes of the page are ticked. */
  readonly isTicked: boolean
}

/** Reads what the list is asked to show; a parameter that means nothing is as if it were not there. */
export function readRuleListView(field: (name: string) => string): RuleListView {
  const oneOf = <Value extends string>(values: readonly Value[], text: string) => values.find((value) => value === text)
  const order = field('order')
  const page = field('page').trim()
  return {
    listing: {
      text: field('q').trim(),
      state: oneOf(RULE_STATES, field('state')),
      effect: oneOf(RULE_EFFECTS, field('effect')),
      group: readGroup(field('group')),
      order: oneOf(RULE_ORDERS, order.replace(/^-/, '')),
      isDescending: order.startsWith('-'),
    },
    page: /^\d{1,9}$/.test(page) ? Number(page) : 1,
    isTicked: field('tick') === 'all',
  }
}

/** The parameter for the group without a name: no name has capitals. */
const UNNAMED = 'UNNAMED'

function readGroup(text: string): string | undefined {
  return text === UNNAMED ? '' : storable(text, MAX_KEY_LENGTH) || undefined
}

/** Returns the parameters of a view that `readRuleListView` reads, without those that are as by default. */
export function ruleListEntries({ listing, page }: Pick<RuleListView, 'listing' | 'page'>): [string, string][] {
  const { text, state = '', effect = '', group, order, isDescending } = listing
  const entries: [string, string][] = [
    ['q', text],
    ['state', state],
    ['effect', effect],
    ['group', group === '' ? UNNAMED : (group ?? '')],
    ['order', order === undefined ? '' : `${isDescending ? '-' : ''}${order}`],
    ['page', page === 1 ? '' : String(page)],
  ]
  return entries.filter(([, value]) => value !== '')
}

export function ruleListHref(view: Pick<RuleListView, 'listing' | 'page'>): string {
  const spelled = new URLSearchParams(ruleListEntries(view)).toString()
  return spelled === '' ? RULE_LIST : `${RULE_LIST}?${spelled}`
}

/** The rights of the reader on the list. */
export interface RuleListRights {
  /** The token of the forms; undefined where there are none. */
  readonly token: string | undefined
  /** Whether the reader may do more than switch rules. */
  readonly mayWrite: boolean
}

/** A priority that was typed into the list and is not saved. */
export interface TypedPriority {
  readonly text: string
  readonly problem: string | undefined
}

interface RulesView extends RuleListRights {
  readonly view: RuleListView
  readonly page: RulePage
  readonly codeLimits: readonly CodeLimit[]
  /** Undefined while the log is away. */
  readonly activity: RuleActivity | undefined
  /** The typed priorities by the ids of the rules. */
  readonly typed: ReadonlyMap<number, TypedPriority>
}

/** The settings of the limits of the code, as the app's code names them. */
export const LIMIT_SETTINGS: Readonly<Record<CodeLimit['setting'], string>> = {
  rateLimits: 'middleware.rateLimits',
  defaultRate: 'middleware.defaultRate',
  ceiling: 'middleware.ceiling',
  route: 'limit() or config',
}
const STATE_TEXTS: Readonly<Record<(typeof RULE_STATES)[number], string>> = {
  on: 'On',
  off: 'Off',
  'in-force': 'In force',
  'not-yet': 'Not yet in force',
  over: 'Over',
}
const EFFECT_TEXTS: Readonly<Record<(typeof RULE_EFFECTS)[number], string>> = {
  blocks: 'Refuses',
  counts: 'Counts only',
}
/** The columns in their order; the first click on a number shows the highest. */
const COLUMNS: readonly { readonly order: RuleOrder; readonly text: string; readonly isNumber: boolean }[] = [
  { order: 'name', text: 'Rule', isNumber: false },
  { order: 'pathPattern', text: 'Target', isNumber: false },
  { order: 'rate', text: 'Rate', isNumber: false },
  { order: 'group', text: 'Group', isNumber: false },
  { order: 'priority', text: 'Priority', isNumber: true },
  { order: 'isActive', text: 'State', isNumber: false },
  { order: 'matched', text: 'Matched, 24 h', isNumber: true },
  { order: 'refused', text: 'Refused, 24 h', isNumber: true },
]

const LOG_AWAY = 'The database of the event log does not respond at the moment: what rules matched is not known.'

/** Returns the context of `rules.hbs`. */
export function rulesContext(
  { view, page, codeLimits, activity, typed, token, mayWrite }: RulesView,
  log: LogState,
  nowMs: number,
) {
  const { enabled, logEvents, useDynamicRules } = log.switches
  const isWhole = activity !== undefined && enabled && logEvents !== false && !logsOnlyBlocked(log)
  const { listing } = view
  const { number, pageCount, found, total, groups } = page
  const shown = { listing, page: number }
  return {
    page: {
      title: 'Rules',
      subtitle: 'Rate limits',
      notices: logNotices(log, true),
      rules_off: !useDynamicRules,
      filter: filterControls(listing, groups),
      has_groups: groups.length > 0,
      columns: COLUMNS.filter(({ order }) => order !== 'group' || groups.length > 0).map((column) =>
        columnHead(column, listing),
      ),
      is_empty: total === 0,
      ordered: listing.order !== undefined,
      token,
      may_write: token !== undefined && mayWrite,
      kept: ruleListEntries(shown).map(([name, value]) => ({ name, value })),
      found: {
        count: found,
        text: isNarrowed(listing) ? `${formatCount(found)} of ${formatCount(total)} rules` : countRules(total),
        // The action on all of them is for a list that somebody has narrowed.
        all: isNarrowed(listing) && found > 0 ? (found === 1 ? 'the one' : `all ${formatCount(found)}`) : undefined,
        tick_href: view.isTicked ? ruleListHref(shown) : withTicks(ruleListHref(shown)),
        is_ticked: view.isTicked,
      },
      rules: page.rules.map((rule) => {
        const { total, blocked } = activity?.today.get(rule.name) ?? NO_TRAFFIC
        const { text, problem } = typed.get(rule.id) ?? { text: String(rule.priority), problem: undefined }
        const listed = listedRule(rule, nowMs)
        return {
          ...listed,
          id: rule.id,
          priority: rule.priority,
          typed: text,
          problem,
          hits: activity && formatCount(total),
          refused: activity && formatCount(blocked),
          is_on: Boolean(rule.isActive),
          idle:
            isWhole && listed.left_out === undefined && isInForce(rule, nowMs) && !activity.active.has(rule.name)
              ? idle(rule, nowMs)
              : undefined,
        }
      }),
      pages: pageCount === 1 ? undefined : pageLinks(shown, pageCount),
      code_limits: codeLimits.map(({ policy, rate, unit, setting, routes }) => ({
        policy: visible(policy),
        rate: rateWords(rate ?? 'a function of the request', unit),
        setting: LIMIT_SETTINGS[setting],
        routes: routes.map(visible),
      })),
      unruled: activity === undefined ? LOG_AWAY : unruledText(activity.today),
      now: toMoment(nowMs),
    },
  }
}

/** Says how many requests of the last 24 hours were decided by no rule. */
function unruledText(today: RuleActivity['today']): string {
  const unruled = today.get('')?.total ?? 0
  const isLogged = [...today.values()].some(({ total }) => total > 0)
  if (!isLogged) return 'No request was logged in the last 24 hours.'
  return unruled === 0
    ? 'In the last 24 hours, rules decided about every logged request.'
    : `In the last 24 hours, no rule decided about ${countOf(unruled, 'logged request')}: a limit in code, a list or an override did.`
}

export function countRules(count: number): string {
  return count === 1 ? '1 rule' : `${formatCount(count)} rules`
}

function withTicks(href: string): string {
  return `${href}${href.includes('?') ? '&' : '?'}tick=all`
}

function filterControls(listing: RuleListing, groups: readonly string[]) {
  const { text, state, effect, group } = listing
  const options = <Value extends string>(texts: Readonly<Record<Value, string>>, chosen: Value | undefined) =>
    Object.entries<string>(texts).map(([value, label]) => ({ value, label, selected: value === chosen }))
  const kept = ruleListEntries({ listing, page: 1 }).filter(([name]) => name === 'order')
  return {
    text,
    states: options(STATE_TEXTS, state),
    effects: options(EFFECT_TEXTS, effect),
    groups: groups.length === 0 ? undefined : groupOptions(groups, group),
    kept: kept.map(([name, value]) => ({ name, value })),
    clear_href: isNarrowed(listing)
      ? ruleListHref({
          listing: { ...listing, text: '', state: undefined, effect: undefined, group: undefined },
          page: 1,
        })
      : undefined,
  }
}

function groupOptions(groups: readonly string[], chosen: string | undefined) {
  const named = groups.map((name) => ({ value: name, label: visible(name), selected: name === chosen }))
  return [{ value: UNNAMED, label: 'Without a name', selected: chosen === '' }, ...named]
}

function columnHead({ order, text, isNumber }: (typeof COLUMNS)[number], listing: RuleListing) {
  const isCurrent = listing.order === order
  const isDescending = isCurrent ? !listing.isDescending : isNumber
  return {
    text,
    is_number: isNumber,
    href: ruleListHref({ listing: { ...listing, order, isDescending }, page: 1 }),
    sorted: isCurrent ? (listing.isDescending ? 'descending' : 'ascending') : undefined,
    arrow: isCurrent ? (listing.isDescending ? '↓' : '↑') : undefined,
  }
}

function pageLinks({ listing, page }: Pick<RuleListView, 'listing' | 'page'>, pageCount: number) {
  const href = (number: number) =>
    number < 1 || number > pageCount ? undefined : ruleListHref({ listing, page: number })
  return {
    text: `Page ${formatCount(page)} of ${formatCount(pageCount)}`,
    previous_href: href(page - 1),
    next_href: href(page + 1),
  }
}
