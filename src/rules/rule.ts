import type { ClientKind } from '../clients/client-kind.js'
import type { Dialect } from '../database/dialect.js'
import type { Order } from '../database/list.js'
import { type FieldErrors, RuleValidationError } from '../ground/errors.js'
import { policyFor, type Terms } from '../limiter/limit/terms.js'
import { type RuleBan, toBan } from './ban.js'
import type { Condition } from './conditions/condition.js'
import { contradictionsInRule } from './contradictions.js'
import {
  createParser,
  type Description,
  type Extent,
  type Parsed,
  parseFields,
  type Row,
  type Values,
} from './description.js'
import type { RefusalAnswer } from './refusal-answer.js'
import { RULE_FIELDS, type RuleEntry } from './rule-fields.js'
import { watchGroups } from './stored-groups.js'
import type { Validity } from './validity.js'

/** A rule as it would be written, or a row of the rule table. An absent field takes the default of its column. */
export type RuleCandidate = Pick<RuleEntry, 'name' | 'pathPattern' | 'rate'> & {
  readonly [Name in Exclude<keyof RuleEntry, 'algorithm' | 'startsAt' | 'endsAt'>]?: RuleEntry[Name] | undefined
} & {
  readonly algorithm?: string | undefined
  readonly startsAt?: string | Date | null | undefined
  readonly endsAt?: string | Date | null | undefined
  /** A row's own columns, which are ignored. */
  readonly id?: unknown
  readonly createdAt?: unknown
  readonly updatedAt?: unknown
}

/** A parsed row. */
export interface Rule extends Validity, Terms {
  readonly name: string
  readonly pathPattern: string
  readonly client: ClientKind
  readonly refusal: RefusalAnswer
  /** The bans of clients; null where none is banned. */
  readonly ban: RuleBan | null
  /** The group; empty for the one without a name. */
  readonly group: string
  readonly priority: number
  /** Upper-case names, or `['ALL']`. */
  readonly methods: readonly string[]
  /** Absent where the rule is for every request of its path and methods. */
  readonly condition: Condition | undefined
}

/** A row of the rule table, as far as matching needs it. */
export type RuleRow = Row<typeof RULE_FIELDS>

export const RULES: Description<typeof RULE_FIELDS, 'name'> = {
  entity: 'rule',
  list: 'rules',
  table: 'rate_limit_rule',
  fields: RULE_FIELDS,
  identity: ['name'],
  identify: ({ name }) => ({ name }),
  errors: ruleErrors,
  watch: watchGroups,
  hasExpired: () => false,
  order: ({ bytewise }) => `${bytewise('group_name')}, priority DESC, ${bytewise('name')}`,
}

/** Returns the order in which lists have rules: by priority, the highest first, then by name. */
export function ruleOrder({ bytewise }: Pick<Dialect, 'bytewise'>): Order {
  return [
    { sql: 'priority', kind: 'whole', isDescending: true },
    { sql: bytewise('name'), kind: 'text' },
  ]
}

/**
 * Validates the fields of a rule.
 *
 * @returns one message for every wrong field
 */
export function ruleErrors(values: Values, extent: Extent): FieldErrors {
  const { parsed, errors } = parseFields(RULE_FIELDS, values, extent)
  return { ...contradictionsInRule(parsed), ...errors }
}

const parseRuleRow = createParser(RULE_FIELDS, 'rule', 'stored')
const parseInputRow = createParser(RULE_FIELDS, 'rule', 'input')

/**
 * Parses a stored row.
 *
 * @throws RuleValidationError for a row that was written past the validation
 */
export function parseRule(row: RuleRow): Rule {
  return toRule(parseRuleRow(row))
}

/** Parses a valid rule that has all its fields. */
export function parseRuleInput(values: Values): Rule {
  return toRule(parseInputRow(values))
}

/** Creates a rule. All have the same shape, since requests read them fastest so. */
function toRule(parsed: Parsed<typeof RULE_FIELDS>): Rule {
  const errors = contradictionsInRule(parsed)
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  const { key, method, refusalStatus, refusalMessage, banAfter, banFor, startsAt, endsAt, rate, algorithm, ...fields } =
    parsed
  return {
    ...fields,
    policy: policyFor(rate, algorithm, fields.unit),
    client: key,
    refusal: { statusCode: refusalStatus, message: refusalMessage },
    ban: toBan(banAfter, banFor),
    methods: method,
    startsAtMs: startsAt,
    endsAtMs: endsAt,
  }
}
