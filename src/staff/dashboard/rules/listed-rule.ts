/** What lists say of a rule. */
import { DAY_MS } from '../../../ground/time/clock.js'
import { isInForce as isInTime } from '../../../rules/validity.js'
import { rateWords, visible } from '../format.js'
import { ruleHref } from '../links.js'
import type { ListedRule } from './list-rules.js'

const WEEK_MS = 7 * DAY_MS

/** Returns what a list says of a rule. */
export function listedRule(rule: ListedRule, nowMs: number) {
  return {
    name: shownText(rule.name),
    href: ruleHref(String(rule.name)),
    pattern: shownText(rule.pathPattern),
    method: shownText(rule.method),
    condition: shownText(rule.condition),
    rate: rateWords(shownText(rule.rate), shownText(rule.unit)),
    group: shownText(rule.group),
    ...state(rule, nowMs),
    left_out: leftOutWords(rule),
    counts_only: !rule.block,
  }
}

/** Returns a text of a row, into which raw SQL may have written something else. */
function shownText(value: unknown): string {
  return visible(String(value))
}

/** Returns whether a rule is on, and within its time. */
export function isInForce({ isActive, startsAt, endsAt }: ListedRule, nowMs: number): boolean {
  return Boolean(isActive) && isInTime({ startsAtMs: startsAt, endsAtMs: endsAt }, nowMs)
}

function state(rule: ListedRule, nowMs: number) {
  if (!rule.isActive) return { state: 'Off', tone: 'no' }
  if (rule.leftOut !== undefined) return { state: 'Left out', tone: 'denied' }
  if (isInForce(rule, nowMs)) return { state: 'In force', tone: 'allowed' }
  const isOver = rule.endsAt !== null && rule.endsAt <= nowMs
  return { state: isOver ? 'Over' : 'Not yet', tone: 'no' }
}

/** Says why servers leave a rule out. */
function leftOutWords({ isActive, leftOut }: ListedRule): string | undefined {
  return leftOut === undefined || !isActive ? undefined : visible(`Left out: ${leftOut}.`)
}

/** Says since when a rule in force has matched nothing. */
export function idle({ createdAt, startsAt }: ListedRule, nowMs: number): string {
  const since = Math.max(createdAt, startsAt ?? 0)
  return since <= nowMs - WEEK_MS ? 'Matched nothing for 7 days' : 'Matched nothing so far'
}
