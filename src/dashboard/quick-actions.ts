/** What the dashboard offers for a listed client with one click. */
import type { InForce } from '../internals.js'
import { clientEnds } from '../overrides/client-networks.js'
import { overrideClientFor } from './client-offer.js'
import { inForceWords } from './override-words.js'
import { windowField } from './windows.js'

/** Long enough to find out more, and over by itself. */
const QUICK_BLOCK = { value: '2h', name: '2 h' }

export interface QuickActions {
  /** What is in force for it, in words; a block is offered only where nothing is. */
  readonly state?: string
  readonly block?: {
    readonly token: string
    readonly client: string
    readonly window: { readonly name: string; readonly value: string }
    readonly for: typeof QUICK_BLOCK
  }
}

type OverrideFor = (client: string) => InForce | undefined

/** Returns what is in force for a client; what is in force at one end of a network alone is not for all of it. */
export function findInForce(overrideFor: OverrideFor, client: string): InForce | undefined {
  const [first, last] = clientEnds(client).map(overrideFor)
  return first?.effect === last?.effect && first?.expiresAtMs === last?.expiresAtMs ? first : undefined
}

/**
 * Creates the function that returns what is offered for a client.
 *
 * @param token of the forms; undefined for staff who may not write
 */
export function createQuickActions(overrideFor: OverrideFor, days: number, token: string | undefined) {
  const [name, value] = windowField(days)

  return function quickActions(client: string): QuickActions {
    const inForce = findInForce(overrideFor, client)
    if (inForce !== undefined) return { state: inForceWords(inForce) }
    if (token === undefined || overrideClientFor(client) === undefined) return {}
    return { block: { token, client, window: { name, value }, for: QUICK_BLOCK } }
  }
}
