import type { FastifyInstance } from 'fastify'
import { internalsOf } from '../../src/internals.js'
import { changes } from './changes.js'
import { counters } from './counters.js'
import { events } from './events.js'
import { overrides } from './overrides.js'
import type { AdminResource } from './resource.js'
import { rules } from './rules.js'

/** @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents */
export function createResources(app: FastifyInstance): AdminResource[] {
  const internals = internalsOf(app, 'adminPlugin')
  const limits = app.smartRateLimit
  const parts = { internals, limits, client: limits.client }
  return [rules(parts), overrides(parts), changes(parts), events(parts), ...counters(parts)]
}
