/** The named lists that a rule asks, of which the app that writes it has to know all. */

import { type NamedLists, unknownList } from '../clients/named-lists.js'
import type { FieldErrors } from '../ground/errors.js'
import { parseCondition } from './conditions/condition.js'
import type { Values } from './description.js'

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
