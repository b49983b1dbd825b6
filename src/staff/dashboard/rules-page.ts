import { DAY_MS } from '../../ground/time/clock.js'
import type { CodeLimit } from '../../http/code-limits.js'
import { NO_TRAFFIC } from '../../reports/breakdown.js'
import type { RuleActivity } from '../../reports/traffic.js'
import { isInForce as isInTime } from '../../rules/validity.js'
import { formatCount, toMoment, visible } from './format.js'
import { ruleHref } from './links.js'
import { type LogState, logNotices, logsOnlyBlocked } from './log-state.js'

/** A row of the rule table, as far as the page shows it. Moments are milliseconds since the epoch. */
export interface ListedRule {
  readonly id: number
  readonly name: string
  readonly pathPattern: string
  readonly method: string
  readonly rate: string
  readonly priority: number
  readonly isActive: boolean | number
  readonly block: boolean | number
  readonly createdAt: number
  readonly startsAt: number | null
  readonly endsAt: number | null
}

export const LISTED_FIELDS = [
  'id',
  'name',
  'pathPattern',
  'method',
  'rate',
  'priority',
  'isActive',
  'block',
  'createdAt',
  'startsAt',
  'endsAt',
] as const satisfies (keyof ListedRule)[]

interface RulesView {
  /** Those of one page, in the order in which they are tried. */
  readonly rules: readonly ListedRule[]
  /** Which page that is, of so many. */
  readonly number: number
  readonly pageCount: number
  readonly codeLimits: readonly CodeLimit[]
  readonly activity: RuleActivity
}

const WEEK_MS = 7 * DAY_MS
const SETTINGS: Readonly<Record<CodeLimit['setting'], string>> = {
  rateLimits: 'middleware.rateLimits',
  defaultRate: 'middleware.defaultRate',
  ceiling: 'middleware.ceiling',
  route: 'limit() or config',
}

/** Returns the context of `rules.hbs`. */
export function rulesContext(
  { rules, number, pageCount, codeLimits, activity }: RulesView,
  log: LogState,
  nowMs: number,
) {
  const { enabled, logEvents, useDynamicRules } = log.switches
  const isWhole = enabled && logEvents !== false && !logsOnlyBlocked(log)
  const unruled = activity.today.get('')?.total ?? 0
  return {
    page: {
      title: 'Rules',
      subtitle: 'Rate limits',
      notices: logNotices(log, true),
      rules_off: !useDynamicRules,
      rules: rules.map((rule) => {
        const { total, blocked } = activity.today.get(rule.name) ?? NO_TRAFFIC
        return {
          name: visible(rule.name),
          href: ruleHref(rule.name),
          pattern: visible(rule.pathPattern),
          method: visible(rule.method),
          rate: visible(rule.rate),
          priority: rule.priority,
          hits: formatCount(total),
          refused: formatCount(blocked),
          ...state(rule, nowMs),
          counts_only: !rule.block,
          idle: isWhole && isInForce(rule, nowMs) && !activity.active.has(rule.name) ? idle(rule, nowMs) : undefined,
        }
      }),
      pages: pageCount === 1 ? undefined : pageLinks(number, pageCount),
      code_limits: codeLimits.map(({ policy, rate, setting, routes }) => ({
        policy: visible(policy),
        rate: rate ?? 'a function of the request',
        setting: SETTINGS[setting],
        routes: routes.map(visible),
      })),
      unruled: `In the last 24 hours no rule matched ${formatCount(unruled)} of the logged requests.`,
      now: toMoment(nowMs),
    },
  }
}

function pageLinks(number: number, pageCount: number) {
  const href = (page: number) => (page < 1 || page > pageCount ? undefined : `rules.html?page=${page}`)
  return {
    text: `Page ${formatCount(number)} of ${formatCount(pageCount)}`,
    previous_href: href(number - 1),
    next_href: href(number + 1),
  }
}

function isInForce({ isActive, startsAt, endsAt }: ListedRule, nowMs: number): boolean {
  return Boolean(isActive) && isInTime({ startsAtMs: startsAt, endsAtMs: endsAt }, nowMs)
}

function state(rule: ListedRule, nowMs: number) {
  if (!rule.isActive) return { state: 'Off', tone: 'no' }
  if (isInForce(rule, nowMs)) return { state: 'In force', tone: 'allowed' }
  const isOver = rule.endsAt !== null && rule.endsAt <= nowMs
  return { state: isOver ? 'Over' : 'Not yet', tone: 'no' }
}

function idle({ createdAt, startsAt }: ListedRule, nowMs: number): string {
  const since = Math.max(createdAt, startsAt ?? 0)
  return since <= nowMs - WEEK_MS ? 'Matched nothing for 7 days' : 'Matched nothing so far'
}
