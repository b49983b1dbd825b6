/** The actions that staff are offered for a client. */

import { createClient, parseComposite } from '../../clients/client.js'
import { clientAddress, clientEnds } from '../../clients/client-networks.js'
import { clientText, parseOverrideClient } from '../../clients/override-client.js'
import { REQUESTS } from '../../ground/unit.js'
import type { AppliedOverride, NamedLimit } from '../../plugin/parts/limits-in-force.js'
import type { OverrideInForce } from '../../reports/client-overrides.js'
import { visible } from './format.js'
import { generousRate } from './generous-rate.js'
import { EVERY_PATH } from './override-actions.js'

/** The actions for an address, a network or a user. */
export interface Offer {
  /** The override for all its paths that is in force, which an action replaces. */
  readonly primary: OverrideInForce | undefined
  /** The block beside it. */
  readonly beside: OverrideInForce | undefined
  /** A block of a network around it, or an exemption, which goes before a rate. */
  readonly first: OverrideInForce | undefined
  /**
   * The rate that a rate for all paths replaces: of its override, or one below which no limit is that it meets; undefined
   * where that is not known.
   */
  readonly from: RaisedFrom | undefined
  /** Whether an override can raise a limit that refused it, as far as these are known. */
  readonly canRaise: boolean
}

interface RaisedFrom {
  readonly rate: string
  readonly algorithm: string
  readonly words: string
}

/** The length of an override unless another one is chosen: long enough to find out more, and over by itself. */
export const USUAL_LENGTH = '24h'

/** A policy that decided about a client, and how many requests of it were over the limit, where that is known. */
export interface MetPolicy {
  readonly policy: string
  readonly over_limit?: number
}

/** What is known of a client. */
interface KnownClient {
  readonly client: string
  /** The policies that decided about it; undefined where not all are known. */
  readonly by_policy: readonly MetPolicy[] | undefined
  readonly overrides: readonly OverrideInForce[]
}

/** The policies that no override replaces, and the override itself. */
const NOT_REPLACED = ['ceiling', 'deny-list', 'override']

/** Returns a client as overrides spell it; undefined where none can name it, and where the spelling is another client's. */
export function overrideClientFor(client: string): string | undefined {
  // A form sends another end of a line than it was given.
  if (/[\r\n]/.test(client)) return undefined
  try {
    const spelled = clientText(parseOverrideClient(client))
    return spelled === client ? spelled : undefined
  } catch {
    return undefined
  }
}

/** Returns the usual spelling of a client: other spellings of an address or a network name the same one. */
export function usualClient(client: string): string {
  if (clientAddress(client) === undefined) return client
  try {
    return clientText(parseOverrideClient(client))
  } catch {
    return client
  }
}

/** Returns the parts of a client of several kinds that overrides can name. */
export function overridableParts(client: string): string[] {
  const parts = parseComposite(client)?.parts ?? []
  return parts.flatMap((part) => (part.value === null ? [] : (overrideClientFor(createClient(part).text) ?? [])))
}

type LimitNamed = (policy: string) => NamedLimit | undefined

/** Returns whether an override of a client replaces a limit that refused it, and counts as it does. */
export function canRaise(policy: string, limitNamed: LimitNamed): boolean {
  if (policy === 'override') return true
  const limit = limitNamed(policy)
  if (limit === undefined || !isReplaced(limit) || limit.algorithm === 'concurrency') return false
  return policy === 'default' || limit.pathPattern !== undefined
}

/** Returns whether overrides stand for a limit: they count requests, in place of the limits without a group. */
function isReplaced({ unit, group }: NamedLimit): boolean {
  return unit === REQUESTS && group === ''
}

/**
 * Returns the actions for a client that overrides can name.
 *
 * @param refusedBy the policies that refused it, where they are known without the others
 */
export function offerFor(
  { client, by_policy, overrides }: KnownClient,
  limitNamed: LimitNamed,
  refusedBy: readonly string[] = (by_policy ?? []).flatMap(({ policy, over_limit = 0 }) =>
    over_limit > 0 ? [policy] : [],
  ),
): Offer {
  const clientOverrides = overrides.filter((override) => override.client === client)
  const primary = clientOverrides.find(({ path_pattern }) => path_pattern === '')
  const beside = clientOverrides.find(({ path_pattern, effect }) => path_pattern === EVERY_PATH && effect === 'deny')
  const around = overrides.filter((override) => override.client !== client)
  const everywhere = around.filter(({ path_pattern }) => path_pattern === '' || path_pattern === EVERY_PATH)
  const first = ['deny', 'allow'].flatMap((effect) =>
    everywhere.filter((clientOverrides) => clientOverrides.effect === effect),
  )[0]
  const from =
    primary !== undefined && hasRate(primary)
      ? { rate: primary.effect, algorithm: primary.algorithm, words: 'its override' }
      : by_policy && mostGenerous(by_policy, around.filter(hasRate), limitNamed)
  const raises = refusedBy.length === 0 || refusedBy.some((policy) => canRaise(policy, limitNamed))
  return { primary, beside, first, from, canRaise: raises }
}

function hasRate({ effect }: OverrideInForce): boolean {
  return effect !== 'deny' && effect !== 'allow'
}

/**
 * Returns the most generous limit that a client met, that is the default or that an override of a network sets: a rate is
 * for all paths, so that twice another one could be less than it has now.
 */
function mostGenerous(
  met: readonly { readonly policy: string }[],
  ofNetworks: readonly OverrideInForce[],
  limitNamed: LimitNamed,
): RaisedFrom | undefined {
  const byDefault = limitNamed('default')
  // A function of the host's decides, or the rate counts what overrides do not.
  if (byDefault?.unit !== REQUESTS) return undefined
  const limits = [
    ...met.flatMap(({ policy }) => {
      const limit = NOT_REPLACED.includes(policy) ? undefined : limitNamed(policy)
      return limit !== undefined && isReplaced(limit) ? { name: policy, ...limit } : []
    }),
    { name: 'default', ...byDefault },
    ...ofNetworks.map((clientOverrides) => ({
      name: `override of ${clientOverrides.client}`,
      rate: clientOverrides.effect,
      algorithm: clientOverrides.algorithm,
    })),
  ]
  // A rate is never as much as requests in progress, which are counted over no time.
  if (limits.some(({ algorithm }) => algorithm === 'concurrency')) return undefined
  try {
    const rate = generousRate(limits.map((limit) => limit.rate))
    const clientOverrides = limits.find((limit) => limit.rate === rate)
    return clientOverrides === undefined
      ? { rate, algorithm: 'fixed_window', words: 'what its limits allow together' }
      : {
          rate,
          algorithm: clientOverrides.algorithm,
          words:
            clientOverrides.name === 'default'
              ? 'the default rate'
              : `its most generous limit (${visible(clientOverrides.name)})`,
        }
  } catch {
    // Raw SQL wrote an override with another text.
    return undefined
  }
}

type OverrideFor = (client: string) => AppliedOverride | undefined

/** Returns what is in force for a client; what is in force at one end of a network alone is not for all of it. */
export function findInForce(overrideFor: OverrideFor, client: string): AppliedOverride | undefined {
  const [first, last] = clientEnds(client).map((end) => overrideFor(end))
  return first?.effect === last?.effect && first?.expiresAtMs === last?.expiresAtMs ? first : undefined
}
