import { internalsFor, type LimitedApp, nearestMount } from '../../src/plugin/internals.js'
import { byPost } from './actions.js'
import { changes } from './changes.js'
import { counters } from './counters.js'
import { events } from './events.js'
import { overrides } from './overrides.js'
import type { AdminResource } from './resource.js'
import { rules } from './rules.js'

/**
 * Creates the resources of the panel.
 *
 * @param panel the path of the panel, as browsers request it; undefined in the host's own AdminJS
 * @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents
 */
export function createResources(app: LimitedApp, panel?: string): AdminResource[] {
  const internals = internalsFor(app)
  const limits = app.smartRateLimit
  // Dashboards may be registered later.
  const dashboard = () => nearestMount(internals.mounts.dashboards, panel ?? '')
  const dependencies = { internals, limits, client: limits.client, mounts: { panel, dashboard } }
  return [
    rules(dependencies),
    overrides(dependencies),
    changes(dependencies),
    events(dependencies),
    ...counters(dependencies),
  ].map(({ resource, options }) => ({ resource, options: { ...options, actions: byPost(options.actions) } }))
}
