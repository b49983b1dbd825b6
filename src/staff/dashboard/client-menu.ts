/** The menu of actions for a client: the same in a list, in an incident and on its page. */

import { isNetwork } from '../../clients/client-networks.js'
import type { NamedLimit } from '../../plugin/parts/limits-in-force.js'
import { type OverrideInForce, readOverridesOf } from '../../reports/client-overrides.js'
import { isFiltering } from '../../reports/filter.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { findInForce, type MetPolicy, type Offer, offerFor, overrideClientFor, USUAL_LENGTH } from './client-offer.js'
import { visible } from './format.js'
import { backTo, clientHref, type KeptView, keptFields, raiseFormHref, type View, viewEntries } from './links.js'
import { EVERY_PATH, FOR_EVER, spellSeen } from './override-actions.js'
import { inForceWords } from './override-words.js'
import type { PageRoutes } from './page-routes.js'

/** The block of the button beside the menu: long enough to find out more, and over by itself. */
const QUICK_BLOCK = { value: '2h', name: '2 h' }

/** The field of a form that leads back to the dashboard, once it is done. */
export const RETURNING = { name: 'returns', value: 'dashboard' }

/** The lengths to choose from, as the form sends them. */
const LENGTHS = [
  { value: '15m', name: '15 minutes' },
  { value: '1h', name: '1 hour' },
  { value: '2h', name: '2 hours' },
  { value: USUAL_LENGTH, name: '24 hours' },
  { value: '7d', name: '7 days' },
  { value: FOR_EVER, name: 'for ever' },
]

interface MenuOptions {
  readonly token: string
  /** What the page keeps, as hidden fields. */
  readonly fields: readonly { readonly name: string; readonly value: string }[]
  readonly kept: KeptView
  /** What was typed into the menu for an action that failed; undefined otherwise. */
  readonly typed?: Readonly<Record<string, string>> | undefined
  /** The overrides that the menu ends. */
  readonly ended?: readonly OverrideInForce[]
}

/** Returns the context of the menu in `client-quick.hbs`. */
export function clientMenu(client: string, offer: Offer, { token, fields, kept, typed, ended = [] }: MenuOptions) {
  const { primary, beside, first, from } = offer
  const inForce = beside ?? primary
  const chosen = typed?.keep ?? USUAL_LENGTH
  return {
    token,
    client,
    fields,
    seen: spellSeen(primary),
    beside: spellSeen(beside),
    // What is in force is for the menu to change.
    block: inForce === undefined && first === undefined ? QUICK_BLOCK : undefined,
    raise_href:
      offer.canRaise && first === undefined && inForce?.effect !== 'deny' && inForce?.effect !== 'allow'
        ? raiseFormHref(client, kept)
        : undefined,
    open: typed !== undefined,
    is_blocked: inForce?.effect === 'deny',
    is_allowed: inForce?.effect === 'allow',
    is_network: isNetwork(client),
    first: first && { ...firstOf(first, kept), is_block: first.effect === 'deny' },
    algorithm: from?.algorithm ?? 'fixed_window',
    from: from && { ...from, rate: visible(from.rate) },
    rate: typed?.rate ?? from?.rate ?? '',
    length: typed?.length ?? '',
    note: typed?.note ?? '',
    lengths: LENGTHS.map((each) => ({ ...each, selected: each.value === chosen })),
    ends: ended.map((override) => ({ value: spellSeen(override), label: endLabel(override, client) })),
  }
}

/** Returns the client whose override goes first, with the page on which that is ended. */
export function firstOf({ client }: { readonly client: string }, { window, back }: KeptView) {
  return { name: visible(client), href: clientHref(client, window, back) }
}

/** Names the button that ends an override, as a ban where a rule wrote it. */
export function endLabel(
  { client, effect }: Pick<OverrideInForce, 'client' | 'effect'>,
  present: string,
  isBan = false,
): string {
  const what = isBan ? 'ban' : effect === 'deny' ? 'block' : 'override'
  return client === present ? `End the ${what}` : `End the ${what} of ${visible(client)}`
}

/** The actions for a client in a list. */
export interface QuickActions {
  /** The override in force for it, in words. */
  readonly state?: string
  readonly effect?: string
  /** The menu; undefined for staff who may not write, and for a client that overrides cannot name. */
  readonly menu?: ReturnType<typeof clientMenu>
}

/**
 * Returns the actions for a client.
 *
 * @param policies that decided about it; undefined where not all of these are known
 * @param refusedBy the policies that refused it, where they are known without the others
 */
export type QuickActionsFor = (
  client: string,
  policies?: readonly MetPolicy[] | undefined,
  refusedBy?: readonly string[] | undefined,
) => QuickActions

/**
 * Creates the function that returns the actions for the clients of a page. What is in force is read for those that this
 * process knows it of, which are few.
 *
 * @param token of the forms; undefined for staff who may not write
 */
export async function createQuickActions(
  { inForce: { overrideFor, limitNamed }, database, clock, settings: { privacy } }: PageRoutes<'inForce'>,
  clients: readonly string[],
  view: View,
  token: string | undefined,
): Promise<QuickActionsFor> {
  const kept = { window: view.window, back: backTo(view) }
  const shown = viewEntries(view).map(([name, value]) => ({ name, value }))
  const fields = [...keptFields(kept), ...shown, RETURNING]
  const limits = rememberLimits(limitNamed)
  const held = clients.filter((client) => findInForce(overrideFor, client) !== undefined)
  const source = { entries: database, nowMs: clock.now(), privacy }
  const overridesOf = await fromDatabase(readOverridesOf(source, token === undefined ? [] : held))

  return function quickActions(client, policies, refusedBy) {
    const inForce = findInForce(overrideFor, client)
    const state = inForce && { state: inForceWords(inForce), effect: inForce.effect }
    if (token === undefined || overrideClientFor(client) === undefined) return { ...state }
    const overrides = overridesOf.get(client) ?? []
    // A filter leaves out policies that a client met.
    const by_policy = isFiltering(view.filter) ? undefined : policies
    const offer = offerFor({ client, by_policy, overrides }, limits, refusedBy)
    const ended = overrides.filter(({ path_pattern }) => path_pattern === '' || path_pattern === EVERY_PATH)
    return { ...state, menu: clientMenu(client, offer, { token, fields, kept, ended }) }
  }
}

/** Looks up each limit once: there may be ten thousand rules, and a page asks for the same few. */
function rememberLimits(limitNamed: (policy: string) => NamedLimit | undefined) {
  const limits = new Map<string, NamedLimit | undefined>()
  return (policy: string) => {
    if (!limits.has(policy)) limits.set(policy, limitNamed(policy))
    return limits.get(policy)
  }
}
