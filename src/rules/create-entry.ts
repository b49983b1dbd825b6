import type { ConditionSources } from '../clients/condition-sources.js'
import type { FieldErrors } from '../ground/errors.js'
import {
  type Description,
  defaultsFor,
  type Entry,
  type Extent,
  expandShorthand,
  type FieldTable,
  storedFields,
  type Values,
} from './description.js'
import { unmetErrors } from './unmet-needs.js'

/** What a write or an import knows beside the fields. */
export interface EntryContext {
  /** The time from which durations count. */
  readonly nowMs: number
  /** The time by which a new entry may not have expired; `nowMs` unless given. */
  readonly expiredMs?: number
  /** What conditions may ask; undefined where that is not known. */
  readonly sources: ConditionSources | undefined
}

/**
 * Returns the errors of values that are to be written: the one validation of rules and overrides.
 *
 * @param given the fields that the write names: a rule whose list was removed can still be changed elsewhere
 */
export function fieldErrors(
  description: Pick<Description, 'errors'>,
  given: Values,
  values: Values,
  extent: Extent,
  { nowMs, expiredMs = nowMs, sources }: EntryContext,
): FieldErrors {
  return { ...unmetErrors(given, sources), ...description.errors(values, extent, expiredMs) }
}

/** Creates a complete entry as it is stored, from fields that people gave. It is valid where there are no errors. */
export function createEntry<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  given: Values,
  extent: Exclude<Extent, 'part'>,
  context: EntryContext,
): { readonly entry: Entry<Table>; readonly errors: FieldErrors } | { readonly errors: FieldErrors } {
  const expanded = expandShorthand(description, given, context.nowMs)
  const { values } = expanded
  const errors = { ...fieldErrors(description, values, values, extent, context), ...expanded.errors }
  if (Object.keys(errors).length > 0) return { errors }
  const stored = { ...defaultsFor(description.fields), ...storedFields(description.fields, values) }
  const inOrder = Object.keys(description.fields).map((name) => [name, stored[name]])
  // The fields are valid, which types cannot express.
  return { entry: Object.fromEntries(inOrder) as Entry<Table>, errors }
}
