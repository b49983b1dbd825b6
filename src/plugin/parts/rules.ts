/** The rules and overrides in force. */
import { readRouterOptions } from '../../http/request-path.js'
import { ConditionReports } from '../../http/rule-choice.js'
import { BanWriter } from '../../rules/bans/ban-writer.js'
import { CurrentSnapshot } from '../../rules/snapshot/current-snapshot.js'
import type { Connections, Host } from './connections.js'

export interface RuleParts extends ReturnType<typeof openRules> {}

export function openRules({ app, settings, components, clock, database, log }: Host & Connections) {
  const { enabled, useDynamicRules, ruleCacheTimeoutMs, storeTimeoutMs, privacy } = settings
  const router = readRouterOptions(app)
  const current = new CurrentSnapshot({
    database,
    router,
    isInUse: enabled && useDynamicRules,
    ttlMs: ruleCacheTimeoutMs,
    timeoutMs: storeTimeoutMs,
    now: () => clock.now(),
    log,
    toLogged: privacy?.toCounted,
  })
  return {
    router,
    current: components.open('rules', current),
    writer: components.open('bans', new BanWriter({ database, log })),
    conditions: new ConditionReports(app.log),
  }
}
