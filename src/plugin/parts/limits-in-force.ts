/** What this process knows of the limits and overrides in force. */
import { createAddressSpelling } from '../../clients/address-privacy.js'
import { clientsForKey } from '../../clients/client.js'
import { clientAddress } from '../../clients/client-networks.js'
import { formatCounter, ruleLimitName } from '../../clients/counter.js'
import { clientText } from '../../clients/override-client.js'
import { REQUESTS } from '../../ground/unit.js'
import type { ExplainedLimit } from '../../http/explain/explained-limit.js'
import { createRoutedPath } from '../../http/request-path.js'
import type { Algorithm } from '../../limiter/algorithm.js'
import { toRateText } from '../../limiter/rate.js'
import { rulesByName } from '../../rules/rule-groups.js'
import type { CurrentSnapshot } from '../../rules/snapshot/current-snapshot.js'
import type { Settings } from '../settings/resolve.js'
import type { Host } from './connections.js'
import type { CountingParts } from './counting.js'
import type { RequestParts } from './requests.js'
import type { RuleParts } from './rules.js'

/** A limit of the hook. */
export interface NamedLimit {
  /** The rate, such as `100/m`. */
  readonly rate: string
  /** What the rate counts. */
  readonly unit: string
  readonly algorithm: Algorithm
  /** The group of a rule, in which no override replaces it; empty for other limits. */
  readonly group: string
  /** The path pattern of a rule that counts each request once, as an override does; undefined for other limits. */
  readonly pathPattern?: string
}

/** An override that is in force. */
export interface AppliedOverride {
  readonly id: number
  /** The client of the override: the one that was asked for, or a network that contains it. */
  readonly client: string
  /** `deny`, `allow`, or a rate. */
  readonly effect: string
  /** The algorithm of a rate; undefined for other effects. */
  readonly algorithm: Algorithm | undefined
  /** Empty: every path. */
  readonly pathPattern: string
  /** The end, in milliseconds since the epoch; null for none. */
  readonly expiresAtMs: number | null
}

export type LimitsInForce = ReturnType<typeof createLimitsInForce>['inForce']

export function createLimitsInForce(parts: Pick<Host, 'settings'> & RuleParts & CountingParts & RequestParts) {
  const { settings, router, current, limiter, counters } = parts
  const { clock, ipv6Subnet, privacy } = settings
  const routedPath = createRoutedPath(router)
  const inForce = {
    /** Returns the path that rules see for a received one. */
    routedPath,
    /** Returns whether a rule, or the limit without a rule, counts by user; false for a rule that is not in force. */
    countsByUser(ruleName: string | undefined): boolean {
      const { key } = settings.middleware
      if (ruleName === undefined) return typeof key === 'object' && key.kind === 'user'
      return rulesByName(current.lastGood()).get(ruleName)?.client.kind === 'user'
    },
    /** Returns the limit that events name by its policy; undefined where it has no fixed rate, or is not in force. */
    limitNamed: (policy: string) => findLimit(settings, current, policy),
    /**
     * Asks what is left to a client of a rule in force, and charges nothing; undefined where the rule counts by something else.
     *
     * @param client as the log has it
     */
    async askRule(name: string, client: string): Promise<ExplainedLimit | undefined> {
      const nowMs = clock.now()
      const rule = rulesByName(await current.at(nowMs)).get(name)
      const [counted] = rule === undefined ? [] : clientsForKey(privacy?.toCounted(client) ?? client, rule.client)
      if (rule === undefined || counted === undefined) return undefined
      const { withStanding } = await import('../../http/explain/explained-limit.js')
      const check = { key: formatCounter(ruleLimitName(name), counted), policy: rule.policy, cost: 0 }
      const decision = await limiter.check(check, nowMs, 0)
      return withStanding(name, toRateText(rule.policy), '', { limit: rule, decision }, rule.group)
    },
    /**
     * Returns the override that decides about a client's requests, as this process knows it; undefined where none does.
     *
     * @param path as it was received; `/` unless given
     */
    overrideFor: (client: string, path = '/') => findOverride(current, client, routedPath(path), clock.now()),
    /**
     * Returns the names of the counters that a client may have: those of limits in code, of its overrides, and of the rules
     * in force.
     *
     * @param client its key in the log, or as a person spells it
     */
    async clientCounters(client: string): Promise<string[]> {
      const toCounted = privacy?.toCounted ?? createAddressSpelling(ipv6Subnet)
      return counters.countersFor(toCounted(client), await current.at(clock.now()))
    },
  }
  return { inForce }
}

function findOverride(
  current: CurrentSnapshot,
  client: string,
  path: string,
  nowMs: number,
): AppliedOverride | undefined {
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
