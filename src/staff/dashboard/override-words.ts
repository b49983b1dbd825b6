import type { InForce } from '../../plugin/internals.js'
import type { ClientOverride } from '../../reports/client-overrides.js'
import { formatTime, visible } from './format.js'

/** Says what an override does: `Blocked`, `Exempt from all limits`, `Limited to 300/m`. */
export function effectWords(effect: string): string {
  if (effect === 'deny') return 'Blocked'
  return effect === 'allow' ? 'Exempt from all limits' : `Limited to ${visible(effect)}`
}

/** Names an override of another client that decides first: `The block of ip:203.0.113.0/24 goes first`. */
export function firstWords({ effect, client }: { readonly effect: string; readonly client: string }): string {
  return `The ${effect === 'deny' ? 'block' : 'exemption'} of ${visible(client)} goes first`
}

/** Says until when: `until 2026-01-15 14:00:00 UTC`, `for ever`. */
export function endWords(expiresAtMs: number | null): string {
  return expiresAtMs === null ? 'for ever' : `until ${formatTime(expiresAtMs)} UTC`
}

/** Says what is in force, and until when. */
export function inForceWords({ effect, expiresAtMs }: Omit<InForce, 'client'>): string {
  return `${effectWords(effect)} ${endWords(expiresAtMs)}`
}

/** Says who wrote something: `by alice`, `by the rule login`; empty where that is not known. */
export function actorWords(actor: string): string {
  if (actor === '') return ''
  return actor.startsWith('rule:') ? `by the rule ${visible(actor.slice('rule:'.length))}` : `by ${visible(actor)}`
}

/** Returns whether a rule wrote an override. */
export function isBan({ actor }: Pick<ClientOverride, 'actor'>): boolean {
  return actor.startsWith('rule:')
}
