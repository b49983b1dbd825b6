/** The app's decoration `smartRateLimit`, and what the staff pages need of the plugin. */
import type { Analytics } from '../analytics/analytics.js'
import type { OpenDatabase } from '../client.js'
import type { EventLog } from '../events/event-log.js'
import { exportRules, importRules } from '../exchange/exchange.js'
import { listChanges, revertChange } from '../history/history.js'
import { validateCost } from '../http/cost.js'
import { type CounterScopes, countersForOverrides, countersForRules } from '../http/counter-scopes.js'
import { keptDecision } from '../http/on-request.js'
import type { RequestAddresses } from '../http/request-address.js'
import type { RouterOptions } from '../http/request-path.js'
import type { Internals } from '../internals.js'
import type { Limiter } from '../limiter/limiter.js'
import type { Settings } from '../settings/resolve.js'
import type { CurrentSnapshot } from '../snapshot/current-snapshot.js'
import type { Store } from '../stores/store.js'
import { createHealth } from './health.js'
import type { Hook } from './hook.js'
import type { SmartRateLimit } from './smart-rate-limit.js'
import { createRulePreview, findLogGaps, previewNotesFor } from './wiring.js'

export interface Decorated {
  readonly settings: Settings
  readonly opened: OpenDatabase
  readonly router: RouterOptions
  readonly addresses: RequestAddresses
  readonly store: Store
  readonly limiter: Limiter
  readonly current: CurrentSnapshot
  readonly events: EventLog
  readonly reports: Analytics
  readonly scopes: CounterScopes
  readonly hook: Hook
}

export function createDecoration(decorated: Decorated): SmartRateLimit {
  const { opened, store, limiter, current, events, reports, scopes, hook } = decorated
  return {
    client: opened.client,
    store,
    analytics: reports,
    health: createHealth(decorated.settings, decorated),
    events: { flush: () => events.flush(), stats: () => events.stats() },
    rules: createRules(decorated),
    limit: hook.routeLimit,
    decisionOf: keptDecision,
    check: async (request, { cost = 1 } = {}) => hook.ask(request, validateCost('check.cost', cost)),
    peek: (request) => hook.ask(request, 0),
    reset(key) {
      const { rules, overrides } = current.lastGood()
      return limiter.reset([
        ...scopes.countersFor(key),
        ...countersForRules(rules.rules, key),
        ...countersForOverrides(overrides, key),
      ])
    },
  }
}

function createRules({ settings, opened, router, current, events, hook }: Decorated): SmartRateLimit['rules'] {
  const { database } = opened
  const { clock } = settings
  return {
    invalidateCache: () => current.invalidate(),
    reload: async () => {
      await current.reload()
      return current.lastGood().rules.rules.length
    },
    active: async () => {
      const nowMs = clock.now()
      return (await current.at(nowMs)).rules.inForce(nowMs)
    },
    export: () => exportRules(database, clock),
    import: (document, options) => importRules(database, clock, document, options),
    history: (name, options) => listChanges(database, name, options),
    revert: (changeId) => revertChange(opened, changeId),
    preview: createRulePreview(settings, opened, router, {
      gaps: () => findLogGaps(settings, events),
      notes: () => previewNotesFor(settings, hook.pricedRoutes()),
    }),
  }
}

export function createInternals(
  { settings, opened, addresses, current, events }: Decorated,
  staffLimiter: Limiter,
): Internals {
  return {
    database: opened.database,
    staffLimiter,
    clock: settings.clock,
    switches: settings,
    places: { dashboards: [], panels: [] },
    eventStats: () => events.stats(),
    countsByUser: (ruleName) => {
      const { key } = settings.middleware
      if (ruleName === undefined) return typeof key === 'object' && key.kind === 'user'
      return current.lastGood().rules.rules.some(({ name, client }) => name === ruleName && client.kind === 'user')
    },
    clientAddress: (request) => addresses.client(request).key,
  }
}
