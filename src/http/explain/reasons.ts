/** The reasons why limits match a request, or do not. */

import { clientText } from '../../clients/override-client.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { REQUESTS } from '../../ground/unit.js'
import { toRateText } from '../../limiter/rate.js'
import { isInForce as isOverrideInForce } from '../../rules/overrides/override.js'
import type { RequestWork } from '../../rules/patterns/work.js'
import type { Rule } from '../../rules/rule.js'
import { appliesToMethod } from '../../rules/rule-set.js'
import { isInForce } from '../../rules/validity.js'
import type { CheckedRequest, InForce } from '../checked-request.js'
import { TOO_LONG_LIMIT } from '../checked-request.js'
import type { RateFunction } from '../policy-limits.js'
import type { PathPrefixes } from '../request-path.js'
import { whyNotHeld } from '../rule-choice.js'

/** The limits that requests can meet, as far as they are known at registration. */
export interface ReasonDependencies {
  /** The prefixes of `rateLimits`, with themselves as values. */
  readonly prefixes: PathPrefixes<string>
  readonly rateLimits: Readonly<Record<string, string>>
  readonly defaultRate: string | RateFunction
  /** The unit of the prefixes and of the default. */
  readonly unit: string
  readonly useDynamicRules: boolean
  readonly hasDenyList: boolean
  readonly hasAllowList: boolean
}

export const RULE_MATCHES = 'The rule matches the request.'
const REFUSED = ': the request is refused.'
const NO_ADDRESS = 'The address is not known, only its pseudonym.'
const NONE_GIVEN = 'No address was given.'

/** The reason why a limit applies or does not, before what decides first is taken into account. */
export type Reason = readonly [
  policy: string,
  rate: string | null,
  unit: string,
  matches: boolean,
  why: string,
  group?: string,
]

/**
 * Lists the limits but the ceiling, in the order of deciding, a slice at a time: there may be thousands of rules. All
 * patterns together take as much work as one request may, and so do all conditions.
 */
export async function listReasons(dependencies: ReasonDependencies, checked: CheckedRequest): Promise<Reason[]> {
  const { address } = checked
  const { rules, groups } = checked.inForce
  const slices = new CooperativeYield()
  const unknown = hasAddress(checked) ? (address.plain === null ? NO_ADDRESS : undefined) : NONE_GIVEN
  const listed: Reason[] = []
  if (dependencies.hasDenyList) {
    const isListed = address.listed === 'deny'
    const why = isListed
      ? 'The address is on the deny list: every request is denied.'
      : 'The address is not on the deny list.'
    listed.push(['deny-list', null, REQUESTS, isListed, unknown ?? why])
  }
  if (dependencies.useDynamicRules) listed.push(await overrideReason(checked, slices))
  if (dependencies.hasAllowList) {
    const isListed = address.listed === 'allow'
    const why = isListed
      ? 'The address is on the allow list: every request is allowed.'
      : 'The address is not on the allow list.'
    listed.push(['allow-list', null, REQUESTS, isListed, unknown ?? why])
  }
  const work: ExplainWork = { patterns: { work: 0 }, conditions: { work: 0 } }
  listed.push(...(await ruleReasons(rules, checked, work, slices)))
  // A path that is too long leaves open which rule matches.
  const isTooLong = checked.limit === TOO_LONG_LIMIT && checked.override !== null
  const tooLong: Reason = [
    'path-length',
    null,
    REQUESTS,
    true,
    `The path, the query or a header is too long for the patterns and conditions of rules${REFUSED}`,
  ]
  listed.push(...(isTooLong ? [tooLong] : []), ...staticReasons(dependencies, checked))
  for (const group of groups) listed.push(...(await ruleReasons(group, checked, work, slices)))
  return listed
}

interface ExplainWork {
  readonly patterns: RequestWork
  readonly conditions: RequestWork
}

/** Lists the rules of a group. */
async function ruleReasons(
  rules: InForce['rules'],
  checked: CheckedRequest,
  work: ExplainWork,
  slices: CooperativeYield,
): Promise<Reason[]> {
  const matching = rules.matching(checked.path, work.patterns)
  const listed: Reason[] = []
  for (const rule of rules.rules) {
    listed.push(ruleReason(matching, checked, rule, work.conditions))
    if (slices.over()) await slices.pause()
  }
  return listed
}

/** Returns whether an address was given, or its pseudonym. */
export function hasAddress({ address }: Pick<CheckedRequest, 'address'>): boolean {
  return address.plain !== null || address.pseudonym !== null
}

async function overrideReason(checked: CheckedRequest, slices: CooperativeYield): Promise<Reason> {
  const { override } = checked
  const others = await othersFor(checked, slices)
  if (override === undefined) {
    return ['override', null, REQUESTS, false, `No override in force is for this client and path.${others}`]
  }
  if (override === null) {
    return [
      'path-length',
      null,
      REQUESTS,
      true,
      `The path is too long to be searched for the patterns of overrides${REFUSED}`,
    ]
  }
  const { effect } = override
  const client = clientText(override.client)
  if (effect === 'deny')
    return ['override', null, REQUESTS, true, `An override is for ${client}: every request is denied.`]
  if (effect === 'allow')
    return ['override', null, REQUESTS, true, `An override is for ${client}: every request is allowed.${others}`]
  return ['override', toRateText(effect), REQUESTS, true, `An override sets the rate of ${client}.${others}`]
}

/** Says how many overrides may be for the client's address, where that is not given. */
async function othersFor(checked: CheckedRequest, slices: CooperativeYield): Promise<string> {
  if (hasAddress(checked)) return ''
  const nowMs = checked.nowMs
  let count = 0
  for (const override of checked.inForce.overrides.all()) {
    if (override.client.kind !== 'user' && isOverrideInForce(override, nowMs)) count++
    if (slices.over()) await slices.pause()
  }
  if (count === 0) return ''
  return ` No address was given: ${count === 1 ? '1 override' : `${count} overrides`} for addresses and networks may apply too.`
}

type Matching = ReadonlySet<Rule> | null

function ruleReason(matching: Matching, checked: CheckedRequest, rule: Rule, work: RequestWork): Reason {
  const why = whyNot(matching, checked, rule, work)
  return [rule.name, toRateText(rule.policy), rule.unit, why === undefined, why ?? RULE_MATCHES, rule.group]
}

function whyNot(matching: Matching, checked: CheckedRequest, rule: Rule, work: RequestWork): string | undefined {
  const { method } = checked.request
  if (!isInForce(rule, checked.nowMs)) return 'The rule is not in force at this time.'
  if (!appliesToMethod(rule, method)) return `The rule is for ${rule.methods.join(', ')}, not for ${method}.`
  if (matching === null) return 'The path is too long to be searched for the patterns of all rules.'
  if (!matching.has(rule)) return `The path does not match ${rule.pathPattern}.`
  return rule.condition === undefined ? undefined : whyNotHeld(rule.condition, checked, work)
}

function staticReasons(
  { prefixes, rateLimits, defaultRate, unit }: ReasonDependencies,
  checked: CheckedRequest,
): Reason[] {
  const found = prefixes.find(checked.path)
  const reasons = Object.entries(rateLimits)
    .toSorted(([one], [other]) => other.length - one.length)
    .map(([prefix, rate]): Reason => {
      const isFound = prefix === found
      return [
        prefix,
        rate,
        unit,
        isFound,
        isFound ? `The path is at or below ${prefix}.` : `The path is not below ${prefix}, or a longer prefix decides.`,
      ]
    })
  const rate = typeof defaultRate === 'string' ? defaultRate : null
  const isDefault = found === undefined
  const rules = checked.inForce.groups.length === 0 ? 'rule' : 'rule without a group'
  const why = isDefault ? `No override, ${rules} or prefix decides.` : `The prefix ${found} decides before it.`
  return [...reasons, ['default', rate, unit, isDefault, why]]
}
