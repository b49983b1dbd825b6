import type { CheckedRequest } from '../../http/checked-request.js'
import { hasEntries } from '../../http/client-address.js'
import { createExplain } from '../../http/explain/explain.js'
import { createRoutedRequests } from '../../http/explain/routed-request.js'
import type { HookDependencies } from '../../http/on-request.js'
import { PathPrefixes } from '../../http/request-path.js'
import type { DeclaredRoutes } from '../../http/routes/declared-routes.js'
import type { HookComponents } from './hook-components.js'

/** Creates the function that explains the plugin's own check of a request. */
export function createAppExplain(
  { app, settings, addresses, router }: HookComponents,
  hook: HookDependencies,
  routes: DeclaredRoutes,
  isSkipped: (checked: CheckedRequest) => boolean,
) {
  const { enabled, useDynamicRules, middleware } = settings
  const { rateLimits, defaultRate, unit, ceiling, addresses: lists } = middleware
  const prefixes = Object.keys(rateLimits).map((prefix) => [prefix, prefix] as const)
  return createExplain({
    hook,
    describe: createRoutedRequests(app, router, routes.all),
    limitsOf: (route) => routes.limitsOf(route),
    useDynamicRules,
    rateLimits,
    defaultRate,
    unit,
    ceiling,
    prefixes: new PathPrefixes(prefixes, router),
    hasDenyList: hasEntries(lists.deny),
    hasAllowList: hasEntries(lists.allow),
    address: addresses.parse,
    whySkipped(checked) {
      if (!enabled) return 'The setting "enabled" is false.'
      if (isSkipped(checked)) return 'The path is in skipPaths.'
      const isOut = checked.request.routeOptions.config.smartRateLimit === false
      return isOut ? 'The route has opted out of the check.' : undefined
    },
  })
}
