/** The limits of single routes, which code creates. */
import { countsByUser } from '../../clients/client-kind.js'
import { requireLists } from '../../http/client-address.js'
import { routeName } from '../../http/code-counters.js'
import { DeclaredRoutes } from '../../http/routes/declared-routes.js'
import {
  type CommonDependencies,
  createRouteLimit,
  type RouteLimitHook,
  type RouteLimitOptions,
} from '../../http/routes/route-limit.js'
import { requireMethod, requireSettle } from '../../limiter/core/counting-settings.js'
import { resolveRouteLimit } from '../settings/route-limit.js'
import type { HookComponents } from './hook-components.js'
import type { Keys } from './keys.js'
import type { Records } from './records.js'

export function createRouteLimits(
  { app, settings, router, counters, store, limiter }: HookComponents,
  { warnings, findUser, toClient }: Keys,
  checks: CommonDependencies,
  records: Records,
) {
  const routes = new DeclaredRoutes()
  let haveLimits = false
  return {
    /** The routes that were declared so far. */
    routes,
    /** Returns whether there are limits, so far. */
    haveLimits: () => haveLimits,
    /**
     * @param setting the beginning of the names of its settings in messages
     * @param sharesName whether all routes with its name share a counter unless it says so itself
     * @throws InvalidSettingError for invalid options
     */
    create(options: RouteLimitOptions, setting: string, sharesName: boolean): RouteLimitHook {
      const {
        key,
        shared: isShared = sharesName && options.name !== undefined,
        ...resolved
      } = resolveRouteLimit(options, setting)
      if (resolved.algorithm === 'concurrency') {
        requireSettle(settings.middleware.backend, `${setting}.algorithm`, resolved.algorithm)
      }
      requireLists(`${setting}.allowList`, resolved.allowList, settings.lists.named)
      if (typeof key === 'object') warnings.noteKind(key)
      const limit = createRouteLimit(
        {
          ...resolved,
          setting,
          isShared,
          kind: typeof key === 'object' ? key : null,
        },
        {
          ...checks,
          enabled: settings.enabled,
          note: (hook, explained) => routes.noteLimit(hook, explained),
          routesOf: (hook) => routes.withHook(hook).map(routeName),
          async resetLimits(names) {
            requireMethod(store, 'resetAll', 'resetAll() was called')
            await limiter.resetAll(names.map((limitName) => `${limitName}|`))
          },
          needsUser: typeof key === 'object' && countsByUser(key),
          user: findUser,
          variant: settings.headers,
          toClient: toClient(key, `${setting}.key`),
          counters,
          router,
          lists: settings.lists.named,
          log: app.log,
          record: records.recordRoute,
        },
      )
      records.noteLimit()
      haveLimits = true
      return limit
    },
  }
}
