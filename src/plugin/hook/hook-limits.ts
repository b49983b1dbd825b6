/** The limits of the plugin's own check. */
import { clientText } from '../../clients/override-client.js'
import { memoize } from '../../ground/remember.js'
import { type Ceiling, createCeiling } from '../../http/ceiling.js'
import type { HookDependencies } from '../../http/on-request.js'
import { createStaticLimits, denialForRule, limitForOverride, limitForRule } from '../../http/policy-limits.js'
import { isRate, type Policy } from '../../limiter/algorithm.js'
import { canSettle } from '../../limiter/core/counting-settings.js'
import type { ActiveOverride } from '../../rules/overrides/override-set.js'
import type { Rule } from '../../rules/rule.js'
import type { HookComponents } from './hook-components.js'
import type { Keys } from './keys.js'

export type Limits = Pick<HookDependencies, 'overrideLimit' | 'ruleLimit' | 'staticLimit' | 'ceiling'>

export function createLimits(components: HookComponents, keys: Keys): Limits {
  return {
    overrideLimit: createOverrideLimit(components, keys),
    ruleLimit: createRuleLimit(components, keys),
    staticLimit: createStaticLimit(components, keys),
    ceiling: createAppCeiling(components),
  }
}

/** Creates the function that returns the limit of an override. */
function createOverrideLimit(components: HookComponents, { options }: Keys): HookDependencies['overrideLimit'] {
  return memoize((override: ActiveOverride) => {
    const { effect, client } = override
    const isCounted = typeof effect === 'string' || canCount(components, effect, `override for ${clientText(client)}`)
    return isCounted ? limitForOverride(override, options) : null
  })
}

/** Creates the function that returns the limit of a rule. */
function createRuleLimit(components: HookComponents, { options, warnings }: Keys): HookDependencies['ruleLimit'] {
  return memoize((rule: Rule) => {
    warnings.noteKind(rule.client)
    return canCount(components, rule.policy, `rule ${rule.name}`, rule.group)
      ? limitForRule(rule, options, components.bans.forRule(rule, denialForRule(rule, options)))
      : null
  })
}

/** Creates the function that returns the limit of a request for which there is no rule. */
function createStaticLimit(
  { app, settings, router, counters }: HookComponents,
  { toClient, warnings }: Keys,
): HookDependencies['staticLimit'] {
  const { key, ...middleware } = settings.middleware
  if (settings.enabled && typeof key === 'object') app.addHook('onReady', async () => warnings.noteKind(key))
  return createStaticLimits({
    ...middleware,
    settings: { rate: 'middleware.defaultRate', reserve: 'middleware.reserve' },
    policyName: 'default',
    toClient: toClient(key, 'middleware.key'),
    kind: typeof key === 'object' ? key : null,
    counters,
    router,
    log: app.log,
  })
}

/** Creates the limit of what an address may request in all, where the settings have one. */
function createAppCeiling({ settings, limiter }: HookComponents): Ceiling | undefined {
  const { ceiling } = settings.middleware
  if (ceiling === undefined) return undefined
  return createCeiling(ceiling, {
    check: limiter.check,
    decideLocally: limiter.decideLocally,
  })
}

/** Returns whether the store can count by a policy; logs where it cannot, when the policy is first met. */
function canCount({ app, settings }: HookComponents, policy: Policy, what: string, group = ''): boolean {
  if ((isRate(policy) && group === '') || canSettle(settings.middleware.backend)) return true
  const has = isRate(policy) ? `the group ${group}` : 'the algorithm concurrency'
  app.log.error(
    `Rate limit ${what} has ${has}, but the Store given as backend has no method settle: add it. Requests go on as if there were no such ${what.split(' ', 1)}`,
  )
  return false
}
