import { pluginParts } from '../../src/plugin/parts.js'
import type { LimitedApp } from '../../src/plugin/smart-rate-limit.js'
import { byPost } from './actions.js'
import { counters, events } from './logged.js'
import { overrides } from './overrides.js'
import type { AdminResource } from './resource.js'
import { rules } from './rules.js'

/**
 * Creates the resources of the panel.
 *
 * @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents
 */
export function createResources(app: LimitedApp): AdminResource[] {
  const { database } = pluginParts(app)
  const source = { client: app.smartRateLimit.client, provider: database.dialect.provider }
  const log = { ...source, provider: database.log.dialect.provider }
  return [rules(source), overrides(source), events(log), ...counters(source)].map(({ resource, options }) => ({
    resource,
    options: { ...options, actions: byPost(options.actions) },
  }))
}
