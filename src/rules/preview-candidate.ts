import { type FieldErrors, RuleValidationError } from '../errors.js'
import { parseRule, type Rule, ruleErrors } from './rule.js'

/** A rule as it would be written, or a row of the rule table. What is absent takes the default of its column. */
export interface RuleCandidate {
  readonly name: string
  readonly pathPattern: string
  readonly rate: string
  readonly description?: string | undefined
  readonly method?: string | undefined
  readonly key?: string | undefined
  readonly algorithm?: string | undefined
  readonly block?: boolean | undefined
  readonly isActive?: boolean | undefined
  readonly priority?: number | undefined
  /** A row's own columns: not looked at. */
  readonly id?: unknown
  readonly createdAt?: unknown
  readonly updatedAt?: unknown
}

const FIELDS = [
  'name',
  'description',
  'pathPattern',
  'method',
  'rate',
  'key',
  'algorithm',
  'priority',
  'block',
  'isActive',
]
const OF_A_ROW = ['id', 'createdAt', 'updatedAt']

/**
 * Checks a candidate as a write to the rule table would be checked, and more strictly: a misspelt field would silently
 * preview another rule.
 *
 * @throws RuleValidationError with a message for every wrong field
 */
export function parseCandidate(candidate: RuleCandidate): Rule {
  const fields = Object.fromEntries(Object.entries(candidate ?? {}).filter(([, value]) => value !== undefined))
  const errors: FieldErrors = { ...strangeFields(fields), ...ruleErrors(fields, 'new') }
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  return parseRule({
    name: candidate.name,
    pathPattern: candidate.pathPattern,
    rate: candidate.rate,
    method: candidate.method ?? 'ALL',
    key: candidate.key ?? 'ip',
    algorithm: candidate.algorithm ?? 'fixed_window',
    block: candidate.block ?? true,
    priority: candidate.priority ?? 0,
  })
}

function strangeFields(fields: Readonly<Record<string, unknown>>): FieldErrors {
  const strange = Object.keys(fields).filter((field) => !FIELDS.includes(field) && !OF_A_ROW.includes(field))
  return Object.fromEntries(strange.map((field) => [field, `is no field of a rule: known are ${FIELDS.join(', ')}`]))
}
