/** The app's decoration `smartRateLimit`. */

import { storedSpellings } from '../clients/client-networks.js'
import { InvalidSettingError } from '../ground/errors.js'
import { createdByFirstCall } from '../ground/remember.js'
import type { Charges, ChargesLeft } from '../http/charged-units.js'
import { keptDecision } from '../http/on-request.js'
import { allRules, rulesInForce } from '../rules/rule-groups.js'
import type { Hook } from './hook/hook.js'
import type { Parts } from './parts.js'
import { createRulePreview, findLogGaps, previewNotesFor } from './rule-preview.js'
import type { SmartRateLimit } from './smart-rate-limit.js'

export function createDecoration(parts: Parts): SmartRateLimit {
  const { settings, opened, store, limiter, events, reports, inForce, hook } = parts
  const { privacy } = settings
  return {
    client: opened.client,
    store,
    analytics: reports,
    health: createdByFirstCall(async () => (await import('./health.js')).createHealth(parts)),
    events: {
      flush() {
        hook.postponed?.sweep()
        return events.flush()
      },
      stats: () => events.stats(),
    },
    rules: createRules(parts),
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
      await limiter.reset([key, ...(await inForce.clientCounters(key))])
    },
  }
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
function createRules(parts: Parts): SmartRateLimit['rules'] {
  const { settings, clock, database, router, current, events, hook } = parts
  const { privacy } = settings
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
    preview: createRulePreview(settings, parts, router, {
      gaps: () => findLogGaps(settings, events),
      notes: () => previewNotesFor(settings, hook.routeSettings()),
    }),
  }
}
