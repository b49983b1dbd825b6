/** What the conditions of rules ask beside the request, and the app that writes or applies a rule may not have. */
import type { ConditionSources } from '../clients/condition-sources.js'
import { unknownList } from '../clients/named-lists.js'
import type { FieldErrors } from '../ground/errors.js'
import { type Condition, parseCondition } from './conditions/condition.js'
import type { FieldTable, Values } from './description.js'

/** The needs that this process has warned of. */
const warned = new Set<string>()

/** Returns why an app cannot decide a condition, which asks for what the settings do not have; undefined where it can. */
export function unmetNeed(condition: Condition | undefined, { lists, geo }: ConditionSources): string | undefined {
  const list = condition?.lists.find((name) => !lists.has(name))
  if (list !== undefined) return unknownList(list, lists)
  const file = condition?.geo.find((kind) => geo?.has(kind) !== true)
  if (file === undefined) return undefined
  return `client.${file} is not known, since this app has no setting "geo.${file}": give geo: { ${file}: './${file}.mmdb' }, or leave client.${file} out`
}

/**
 * Returns the error of a rule whose condition asks for what the app does not have. A writer without an app, which knows of
 * nothing, warns instead: each server leaves out the rule if it lacks what the rule asks for.
 *
 * @param values of a rule, or of anything else, which asks for nothing
 */
export function unmetErrors({ condition }: Values, sources: ConditionSources | undefined): FieldErrors {
  const parsed = parsedIfValid(condition)
  if (sources === undefined) {
    for (const name of parsed?.lists ?? []) warnOf(`names the list ${JSON.stringify(name)}`, 'lists')
    for (const file of parsed?.geo ?? []) warnOf(`asks for client.${file}`, 'geo')
    return {}
  }
  const problem = unmetNeed(parsed, sources)
  return problem === undefined ? {} : { condition: problem }
}

/** Returns why servers leave a rule of a condition out; undefined where they do not, or where that is not known. */
export function whyLeftOut(condition: unknown, sources: ConditionSources | undefined): string | undefined {
  return sources && unmetNeed(parsedIfValid(condition), sources)
}

/** Returns the fields of a table, with the names of the lists that there are in the help of the condition. */
export function withListNames<Table extends FieldTable>(fields: Table, sources: ConditionSources | undefined): Table {
  const { condition } = fields
  const names = sources?.lists.names ?? []
  if (condition === undefined || names.length === 0) return fields
  const calls = names.map((name) => `inList(client.ip, '${name}')`)
  return { ...fields, condition: { ...condition, help: `${condition.help ?? ''} Lists: ${calls.join(', ')}.` } }
}

/** Returns a condition; undefined for one that is wrong, of which another message tells. */
function parsedIfValid(condition: unknown): Condition | undefined {
  try {
    return typeof condition === 'string' ? parseCondition(condition) : undefined
  } catch {
    return undefined
  }
}

function warnOf(need: string, setting: string): void {
  if (warned.has(need)) return
  warned.add(need)
  process.emitWarning(
    `A rule ${need}: servers whose setting "${setting}" does not have it leave the rule out`,
    'RateLimitWarning',
  )
}
