import type { ConditionSources } from '../clients/condition-sources.js'
import type { FieldErrors } from '../ground/errors.js'
import {
  type Description,
  defaultsFor,
  type Entry,
  type Extent,
  expandShorthand,
  type FieldTable,
  givenFields,
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
 * Validates the fields that a write gives: the one validation of rules and overrides, whoever writes them.
 *
 * @param stored the row that an update changes: a rule whose list was removed can still be changed elsewhere
 * @returns the fields without a shorthand, and one message for every wrong field of the row
 */
export function validateFields(
  description: Pick<Description, 'fields' | 'errors' | 'shorthand'>,
  given: Values,
  extent: Extent,
  { nowMs, expiredMs = nowMs, sources }: EntryContext,
  stored: Values = {},
): { readonly values: Values; readonly errors: FieldErrors } {
  const { values, errors } = expandShorthand(description, given, nowMs)
  const row = { ...stored, ...givenFields(description.fields, values) }
  return {
    values,
    errors: { ...unmetErrors(values, sources), ...description.errors(row, extent, expiredMs), ...errors },
  }
}

/** Creates a complete entry as it is stored, from fields that people gave. It is valid where there are no errors. */
export function createEntry<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  given: Values,
  extent: Exclude<Extent, 'part'>,
  context: EntryContext,
): { readonly entry: Entry<Table>; readonly errors: FieldErrors } | { readonly errors: FieldErrors } {
  const { values, errors } = validateFields(description, given, extent, context)
  if (Object.keys(errors).length > 0) return { errors }
  const stored = { ...defaultsFor(description.fields), ...storedFields(description.fields, values) }
  const inOrder = Object.keys(description.fields).map((name) => [name, stored[name]])
  // The fields are valid, which types cannot express.
  return { entry: Object.fromEntries(inOrder) as Entry<Table>, errors }
}
