import type { ClientKind } from '../clients/client-kind.js'
import type { FieldErrors } from '../ground/errors.js'
import { contradictionsIn, type RelatedFields } from '../limiter/limit/contradictions.js'

/** The valid fields of a rule that depend on each other; undefined where a field is wrong or absent. */
interface RelatedRuleFields extends RelatedFields {
  readonly key?: ClientKind | undefined
  readonly banAfter?: number | undefined
  /** The time of a ban in milliseconds; null for an empty text. */
  readonly banFor?: number | null | undefined
  readonly startsAt?: number | null | undefined
  readonly endsAt?: number | null | undefined
}

/** Returns the errors of fields that are valid each, and contradict each other. */
export function contradictionsInRule(fields: RelatedRuleFields): FieldErrors {
  const { startsAt, endsAt } = fields
  const errors = { ...contradictionsIn(fields), ...contradictionsInBan(fields) }
  if (startsAt != null && endsAt != null && endsAt <= startsAt) {
    errors.endsAt = 'is not after startsAt: give a later moment, or null for no end'
  }
  return errors
}

/** A ban is for an address or a user: a client of several kinds, or of another one, is no client of an override. */
function contradictionsInBan({ key, banAfter, banFor }: RelatedRuleFields): Record<string, string> {
  if (banAfter === undefined) return {}
  if (banAfter === 0) {
    return banFor == null
      ? {}
      : { banAfter: 'is 0, which bans nobody: give a number of refusals, or leave banFor empty' }
  }
  if (key !== undefined && key.kind !== 'ip' && key.kind !== 'user') {
    return {
      banAfter: `is ${banAfter}, but a ban is for an address or a user: give the key ip or user, or 0 for no ban`,
    }
  }
  return banFor === null ? { banFor: 'is empty: give a length such as 15m, 2h or 7d, or a banAfter of 0' } : {}
}
