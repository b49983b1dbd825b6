import type { AppliedOverride } from '../../plugin/parts/limits-in-force.js'
import type { ClientOverride } from '../../reports/client-overrides.js'
import { formatTime, visible } from './format.js'

/** The actor of a ban begins with this, before the name of its rule. */
const RULE_PREFIX = 'rule:'

/** Says what an override does: `Denied`, `Exempt from all limits`, `Limited to 300/m`. */
export function effectWords(effect: string): string {
  if (effect === 'deny') return 'Denied'
  return effect === 'allow' ? 'Exempt from all limits' : `Limited to ${visible(effect)}`
}

/** Returns the class of an override in the style sheet. */
export function effectTone(effect: string): 'denied' | 'allowed' | 'limited' {
  if (effect === 'deny') return 'denied'
  return effect === 'allow' ? 'allowed' : 'limited'
}

/** Names an override of another client that decides first: `The block of ip:203.0.113.0/24 takes precedence`. */
export function firstWords({ effect, client }: { readonly effect: string; readonly client: string }): string {
  return `The ${effect === 'deny' ? 'block' : 'exemption'} of ${visible(client)} takes precedence`
}

/** Says until when: `until 2026-01-15 14:00:00 UTC`, `for ever`. */
export function endWords(expiresAtMs: number | null): string {
  return expiresAtMs === null ? 'for ever' : `until ${formatTime(expiresAtMs)} UTC`
}

/** Says what is in force, and until when. */
export function inForceWords({ effect, expiresAtMs }: Pick<AppliedOverride, 'effect' | 'expiresAtMs'>): string {
  return `${effectWords(effect)} ${endWords(expiresAtMs)}`
}

/**
 * Says who wrote something: `alice` or `Rule login` as the subject of a sentence, `by alice` or `by the rule login` behind
 * a verb. An actor that is not known is `Somebody`, or is not mentioned.
 */
export function actorWords(actor: string, form: 'subject' | 'by'): string {
  const isSubject = form === 'subject'
  if (actor === '') return isSubject ? 'Somebody' : ''
  const name = visible(actor.slice(isBan({ actor }) ? RULE_PREFIX.length : 0))
  if (isSubject) return isBan({ actor }) ? `Rule ${name}` : name
  return isBan({ actor }) ? `by the rule ${name}` : `by ${name}`
}

/** Returns whether a rule wrote an override. */
export function isBan({ actor }: Pick<ClientOverride, 'actor'>): boolean {
  return actor.startsWith(RULE_PREFIX)
}
