/** The app's decoration `smartRateLimit`, and what the staff pages need of the plugin. */

import { createAddressSpelling } from '../clients/address-privacy.js'
import { clientsForKey } from '../clients/client.js'
import { clientAddress, storedSpellings } from '../clients/client-networks.js'
import { formatCounter, ruleLimitName } from '../clients/counter.js'
import { clientText } from '../clients/override-client.js'
import type { Components } from '../ground/components.js'
import { InvalidSettingError } from '../ground/errors.js'
import type { OutageLog } from '../ground/outage-log.js'
import { createdByFirstCall } from '../ground/remember.js'
import { REQUESTS } from '../ground/unit.js'
import type { Charges, ChargesLeft } from '../http/charged-units.js'
import type { RequestAddresses } from '../http/client-address.js'
import type { CodeCounters } from '../http/code-counters.js'
import { keptDecision } from '../http/on-request.js'
import { createRoutedPath, type RouterOptions } from '../http/request-path.js'
import type { Limiter } from '../limiter/limiter.js'
import { toRateText } from '../limiter/rate.js'
import { StoredCounters } from '../limiter/stores/sql/stored-counters.js'
import type { Store } from '../limiter/stores/store.js'
import type { EventLog } from '../log/event-log.js'
import type { UsageLog } from '../log/usage/usage-log.js'
import type { ListKeeper } from '../operations/lists/list-keeper.js'
import { sharedJobName } from '../operations/schedule/schedule-options.js'
import { allRules, rulesByName, rulesInForce } from '../rules/rule-groups.js'
import type { CurrentSnapshot } from '../rules/snapshot/current-snapshot.js'
import type { Analytics } from './analytics-interface.js'
import type { OpenDatabase } from './client/client.js'
import type { Hook } from './hook/hook.js'
import type { InForce, Internals, NamedLimit } from './internals.js'
import type { Settings } from './settings/resolve.js'
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
  readonly usage: UsageLog | undefined
  readonly lists: ListKeeper | undefined
  readonly reports: Analytics
  readonly counters: CodeCounters
  readonly hook: Hook
}

export function createDecoration(decorated: Decorated): SmartRateLimit {
  const { settings, opened, store, limiter, events, reports, hook } = decorated
  const { privacy } = settings
  return {
    client: opened.client,
    store,
    analytics: reports,
    health: createdByFirstCall(async () => (await import('./health.js')).createHealth(settings, decorated)),
    events: {
      flush() {
        hook.postponed?.sweep()
        return events.flush()
      },
      stats: () => events.stats(),
    },
    rules: createRules(decorated),
    limit: hook.routeLimit,
    decisionOf: keptDecision,
    ...hook.ask,
    charge: settings.enabled ? hook.charge : async (_request, charges) => uncharged(charges),
    explain: hook.explain,
    consume: createConsume(hook),
    async reset(key) {
      if (privacy?.isShortened(privacy.toCounted(key))) {
        throw new InvalidSettingError(
          `The key ${JSON.stringify(key)} is of a network, whose clients have counters of their own: give the key of one address`,
        )
      }
      await limiter.reset([key, ...(await clientCounters(decorated, key))])
    },
  }
}

/** Returns the names of the counters that a client may have, by its key in the log or as a person spells it. */
async function clientCounters({ settings, current, counters }: Decorated, client: string): Promise<string[]> {
  const { clock, ipv6Subnet, privacy } = settings
  const toCounted = privacy?.toCounted ?? createAddressSpelling(ipv6Subnet)
  return counters.countersFor(toCounted(client), await current.at(clock.now()))
}

function createConsume(hook: Hook): SmartRateLimit['consume'] {
  let consume: SmartRateLimit['consume'] = async (options) => {
    const loaded = await hook.consumer()
    consume = loaded.consume
    return consume(options)
  }
  return (options) => consume(options)
}

/** Returns what is left of units where nothing is counted. */
function uncharged(charges: Charges): ChargesLeft {
  return Object.fromEntries(Object.keys(charges).map((unit) => [unit, null]))
}

/** Creates the operations on rules. Few servers use them; the first use of each loads what it needs. */
function createRules({ settings, opened, router, current, events, hook }: Decorated): SmartRateLimit['rules'] {
  const { database } = opened
  const { clock, privacy } = settings
  return {
    invalidateCache: () => current.invalidate(),
    reload: async () => {
      await current.reload()
      return allRules(current.lastGood()).length
    },
    active: async () => {
      const nowMs = clock.now()
      return rulesInForce(await current.at(nowMs), nowMs)
    },
    export: async () => (await import('../rules/exchange/exchange.js')).exportRules(database, clock),
    import: async (document, options) =>
      (await import('../rules/exchange/exchange.js')).importRules(database, clock, document, options),
    history: async (name, options) => {
      const { listChanges } = await import('../rules/history/history.js')
      return listChanges(database, name === undefined ? name : storedSpellings(name, privacy), options)
    },
    revert: async (changeId) =>
      (await import('../rules/history/revert.js')).revertChange(database, clock.now(), changeId),
    preview: createRulePreview(settings, opened, router, {
      gaps: () => findLogGaps(settings, events),
      notes: () => previewNotesFor(settings, hook.routeSettings()),
    }),
  }
}

export function createInternals(
  decorated: Decorated,
  staffLimiter: Limiter,
  log: OutageLog,
  components: Components,
): Internals {
  const { settings, opened, router, addresses, limiter, current, events, usage, hook } = decorated
  const routedPath = createRoutedPath(router)
  return {
    closeWithPlugin: (name, close) => {
      components.open(name, { close })
    },
    database: opened.database,
    staffLimiter,
    log,
    clock: settings.clock,
    switches: settings,
    privacy: settings.privacy,
    ipv6Subnet: settings.ipv6Subnet,
    alerts: settings.alerts,
    alertJob: findAlertJob(settings),
    mounts: { dashboards: [], panels: [], apis: [] },
    eventStats: () => events.stats(),
    usage,
    countsByUser: (ruleName) => {
      const { key } = settings.middleware
      if (ruleName === undefined) return typeof key === 'object' && key.kind === 'user'
      return rulesByName(current.lastGood()).get(ruleName)?.client.kind === 'user'
    },
    limitNamed: (policy) => findLimit(settings, current, policy),
    explainLogged: hook.explain,
    async askRule(name, client) {
      const { clock, privacy } = settings
      const nowMs = clock.now()
      const rule = rulesByName(await current.at(nowMs)).get(name)
      const [counted] = rule === undefined ? [] : clientsForKey(privacy?.toCounted(client) ?? client, rule.client)
      if (rule === undefined || counted === undefined) return undefined
      const { withStanding } = await import('../http/explain/explained-limit.js')
      const check = { key: formatCounter(ruleLimitName(name), counted), policy: rule.policy, cost: 0 }
      const decision = await limiter.check(check, nowMs, 0)
      return withStanding(name, toRateText(rule.policy), '', { limit: rule, decision }, rule.group)
    },
    overrideFor: (client, path = '/') => findOverride(current, client, routedPath(path), settings.clock.now()),
    clientCounters: (client) => clientCounters(decorated, client),
    counterTables:
      settings.middleware.backend === 'database' ? new StoredCounters(opened.database, settings.namespace) : undefined,
    resetCounters: (names) => limiter.reset(names),
    codeLimits: hook.codeLimits,
    findTemplates: hook.findTemplates,
    routedPath,
    consumer: hook.consumer,
    countedAddress: (request) => addresses.client(request).client.counted,
  }
}

function findAlertJob({ enabled, schedule, namespace }: Settings): Internals['alertJob'] {
  const job = schedule?.jobs.find(({ name }) => name === 'alerts')
  if (!enabled || job === undefined) return undefined
  return { name: sharedJobName(job.name, namespace), nextRun: job.nextRun }
}

function findOverride(current: CurrentSnapshot, client: string, path: string, nowMs: number): InForce | undefined {
  const { overrides } = current.lastGood()
  const network = clientAddress(client)
  const user = client.startsWith('user:') ? client.slice('user:'.length) : null
  if (network === undefined && user === null) return undefined
  const found = overrides.find(network?.address ?? null, user, path, nowMs)
  if (found === undefined || found === null) return undefined
  const { id, effect, pathPattern, expiresAtMs } = found
  return {
    id,
    client: clientText(found.client),
    effect: typeof effect === 'string' ? effect : toRateText(effect),
    algorithm: typeof effect === 'string' ? undefined : effect.algorithm,
    pathPattern,
    expiresAtMs,
  }
}

function findLimit({ middleware }: Settings, current: CurrentSnapshot, policy: string): NamedLimit | undefined {
  const rule = rulesByName(current.lastGood()).get(policy)
  if (rule !== undefined) {
    const { unit, group } = rule
    const countsRequests = rule.cost === 1 && rule.counts === null && unit === REQUESTS
    const limit = { rate: toRateText(rule.policy), unit, algorithm: rule.policy.algorithm, group }
    return countsRequests ? { ...limit, pathPattern: rule.pathPattern } : limit
  }
  const { algorithm, defaultRate, rateLimits, unit } = middleware
  const rate = policy === 'default' ? defaultRate : Object.hasOwn(rateLimits, policy) ? rateLimits[policy] : undefined
  return typeof rate === 'string' ? { rate, unit, algorithm, group: '' } : undefined
}
