/** The rules that decide now about the requests of a rule in a form: it may be better to change one of them. */
import type { Database } from '../../../database/database.js'
import { InvalidSettingError } from '../../../ground/errors.js'
import type { ExplainOptions, Explanation } from '../../../http/explain/explain.js'
import type { Values } from '../../../rules/description.js'
import { requiredPrefix } from '../../../rules/patterns/required-text.js'
import { readSomeEntries } from '../../../rules/read-entries.js'
import { RULES } from '../../../rules/rule.js'
import type { RuleEntry } from '../../../rules/rule-fields.js'
import type { FormNotes } from '../entries/entry-form-routes.js'
import { rateWords, visible } from '../format.js'
import { isLess } from '../generous-rate.js'
import { ruleHref } from '../links.js'

type Covering = Pick<RuleEntry, 'name' | 'rate' | 'unit' | 'priority'>
type Explain = (options: ExplainOptions) => Promise<Explanation>

/** The methods that are tried for a rule of all methods. */
const METHODS = ['GET', 'POST']

/** Creates the function that returns what the form of a rule says of the other rules of its path and group. */
export function coveringNotes(database: Database, explain: Explain) {
  return async function notesFor(values: Values, stored: Values | undefined): Promise<FormNotes> {
    const covering = await findCovering(values)
    const others = covering.filter(({ name }) => name !== stored?.name)
    const [first] = others
    return {
      instead:
        stored !== undefined || first === undefined
          ? undefined
          : { name: visible(first.name), rate: visible(rateWords(first.rate, first.unit)), href: ruleHref(first.name) },
      warning: others.flatMap((other) => warningOf(values, other))[0],
    }
  }

  /** Finds the rules that decide about the beginning of the paths that a pattern matches. */
  async function findCovering({ pathPattern, method, group }: Values): Promise<Covering[]> {
    const prefix = requiredPrefix(String(pathPattern ?? ''), true)?.prefix
    if (prefix === undefined) return []
    const named = /^[A-Z]+/.exec(String(method ?? '').toUpperCase())?.[0] ?? 'ALL'
    const names = new Set<string>()
    for (const each of named === 'ALL' ? METHODS : [named]) {
      for (const { policy, applies } of await limitsOf(each, encodeURI(prefix))) if (applies) names.add(policy)
    }
    if (names.size === 0) return []
    const where = `WHERE ${database.dialect.isOneOf('name', '$1', 'text')}`
    const rows = await readSomeEntries(database, RULES, where, [JSON.stringify([...names])])
    return rows.map(({ entry }) => entry).filter((entry) => entry.group === String(group ?? ''))
  }

  /** Returns the limits of a request; none where no such request can reach the app. */
  async function limitsOf(method: string, path: string): Promise<Explanation['limits']> {
    try {
      return (await explain({ method, path })).limits
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error
      return []
    }
  }
}

/** Says that a rule comes before a stricter one, which then no longer decides. */
function warningOf({ name, rate, unit, priority }: Values, other: Covering): string[] {
  const [first, second] = [Number(priority ?? 0), other.priority]
  const comesFirst = first > second || (first === second && String(name) < other.name)
  if (!comesFirst || typeof rate !== 'string' || unit !== other.unit || !isLess(other.rate, rate)) return []
  return [
    `It comes before the rule ${visible(other.name)}, which is stricter with ${visible(other.rate)}: requests that both match get ${visible(rate)}.`,
  ]
}
