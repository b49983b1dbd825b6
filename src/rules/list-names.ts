/** The named lists that a rule asks, of which the app that writes it has to know all. */

import { type NamedLists, unknownList } from '../clients/named-lists.js'
import type { FieldErrors } from '../ground/errors.js'
import { parseCondition } from './conditions/condition.js'
import type { FieldTable, Values } from './description.js'

/** The lists that this process has warned of. */
const warned = new Set<string>()

/**
 * Returns the error of a rule whose condition names a list that the app does not have. A writer without an app, which
 * knows no lists, warns instead: each server leaves out the rule if it lacks the list.
 *
 * @param values of a rule, or of anything else, which names no list
 */
export function listErrors({ condition }: Values, lists: NamedLists | undefined): FieldErrors {
  const names = typeof condition === 'string' ? listsIn(condition) : []
  if (lists === undefined) {
    for (const name of names) warnOf(name)
    return {}
  }
  const missing = names.find((name) => !lists.has(name))
  return missing === undefined ? {} : { condition: unknownList(missing, lists) }
}

/** Returns the fields of a table, with the names of the lists that there are in the help of the condition. */
export function withListNames<Table extends FieldTable>(fields: Table, lists: NamedLists | undefined): Table {
  const { condition } = fields
  if (condition === undefined || lists === undefined || lists.names.length === 0) return fields
  const calls = lists.names.map((name) => `inList(client.ip, '${name}')`)
  return { ...fields, condition: { ...condition, help: `${condition.help ?? ''} Lists: ${calls.join(', ')}.` } }
}

/** Returns why a rule of a condition is left out; undefined where its lists exist, or are not known. */
export function findMissingList(condition: unknown, lists: NamedLists | undefined): string | undefined {
  return lists === undefined ? undefined : listErrors({ condition }, lists).condition
}

/** Returns the names of the lists that a condition asks; none for one that is wrong. */
function listsIn(condition: string): readonly string[] {
  if (!condition.includes('inList')) return []
  try {
    return parseCondition(condition)?.lists ?? []
  } catch {
    return []
  }
}

function warnOf(name: string): void {
  if (warned.has(name)) return
  warned.add(name)
  process.emitWarning(
    `A rule names the list ${JSON.stringify(name)}: servers whose setting "lists" does not have it leave the rule out`,
    'RateLimitWarning',
  )
}
