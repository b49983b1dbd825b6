import { type FieldErrors, RuleValidationError } from '../errors.js'
import { defaultsFor, type Values } from '../rules/description.js'
import { parseGivenRule, RULES, type Rule, type RuleCandidate, ruleErrors } from '../rules/rule.js'

const OF_A_ROW = ['id', 'createdAt', 'updatedAt']

/**
 * Validates a candidate as a write to the rule table is validated, and refuses unknown fields, since a misspelt field
 * would silently preview another rule.
 *
 * @throws RuleValidationError with a message for every wrong field
 */
export function parseCandidate(candidate: RuleCandidate): Rule {
  const values = Object.fromEntries(Object.entries(candidate ?? {}).filter(([, value]) => value !== undefined))
  const errors: FieldErrors = { ...strangeFields(values), ...ruleErrors(values, 'new') }
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  return parseGivenRule({ ...defaultsFor(RULES.fields), ...values })
}

function strangeFields(values: Values): FieldErrors {
  const known = Object.keys(RULES.fields)
  const strange = Object.keys(values).filter((field) => !known.includes(field) && !OF_A_ROW.includes(field))
  return Object.fromEntries(strange.map((field) => [field, `is no field of a rule: known are ${known.join(', ')}`]))
}
