import type { ClientKind } from '../clients/client-kind.js'
import { type FieldErrors, RuleValidationError } from '../ground/errors.js'
import { REQUESTS } from '../ground/unit.js'
import type { Policy } from '../limiter/algorithm.js'
import { toPolicy, toReservingPolicy } from '../limiter/rate.js'
import { BAN_AFTER, BAN_FOR, type RuleBan, toBan } from './ban.js'
import type { Condition } from './conditions/condition.js'
import { contradictionsIn } from './contradictions.js'
import { COUNTS, type CountedStatuses } from './counted-statuses.js'
import {
  createParser,
  type Description,
  defaultsFor,
  type Extent,
  fieldErrors,
  type Parsed,
  type Row,
  type Values,
} from './description.js'
import { NOTICE_AT } from './notice-at.js'
import type { RefusalAnswer } from './refusal-answer.js'
import { RULE_FIELDS, type RuleEntry } from './rule-fields.js'
import { watchGroups } from './stored-groups.js'
import { RESERVE, UNIT } from './unit.js'
import { ENDS_AT, STARTS_AT, type Validity } from './validity.js'

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
export interface Rule extends Validity {
  readonly name: string
  readonly pathPattern: string
  readonly policy: Policy
  readonly client: ClientKind
  /** The statuses of the responses that count; null where every request counts. */
  readonly counts: CountedStatuses | null
  /** The part of the limit that a request uses. */
  readonly cost: number
  /** What the limit counts. */
  readonly unit: string
  /** How much of another unit than requests a request takes in advance. */
  readonly reserve: number
  /** The percentages of a window at which a client is told of; null where there are none. */
  readonly noticeAt: readonly number[] | null
  readonly block: boolean
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

const DEFAULTS = defaultsFor(RULE_FIELDS)

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

/**
 * Validates the fields of a rule.
 *
 * @returns one message for every wrong field
 */
export function ruleErrors(values: Values, extent: Extent): FieldErrors {
  const errors = fieldErrors(RULE_FIELDS, values, extent)
  function parsedIfValid<Value>(name: keyof RuleEntry, parse: (value: unknown) => Value): Value | undefined {
    const value = values[name] === undefined && extent === 'new' ? DEFAULTS[name] : values[name]
    return name in errors || value === undefined ? undefined : parse(value)
  }
  const contradictions = contradictionsIn({
    rate: parsedIfValid('rate', RULE_FIELDS.rate.parse),
    algorithm: parsedIfValid('algorithm', RULE_FIELDS.algorithm.parse),
    key: parsedIfValid('key', RULE_FIELDS.key.parse),
    counts: parsedIfValid('counts', COUNTS.parse),
    cost: parsedIfValid('cost', RULE_FIELDS.cost.parse),
    unit: parsedIfValid('unit', UNIT.parse),
    reserve: parsedIfValid('reserve', RESERVE.parse),
    noticeAt: parsedIfValid('noticeAt', NOTICE_AT.parse),
    banAfter: parsedIfValid('banAfter', BAN_AFTER.parse),
    banFor: parsedIfValid('banFor', BAN_FOR.parse),
    startsAt: parsedIfValid('startsAt', STARTS_AT.parse),
    endsAt: parsedIfValid('endsAt', ENDS_AT.parse),
  })
  return { ...contradictions, ...errors }
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

/** Creates a rule with every field spelled out, since requests read rules fastest where all have the same shape. */
function toRule(parsed: Parsed<typeof RULE_FIELDS>): Rule {
  const errors = contradictionsIn(parsed)
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  const { name, pathPattern, method, condition, rate, key, algorithm, counts, cost, unit, reserve, block } = parsed
  return {
    name,
    pathPattern,
    policy: unit === REQUESTS ? toPolicy(algorithm, rate) : toReservingPolicy(algorithm, rate),
    client: key,
    counts,
    cost,
    unit,
    reserve,
    noticeAt: parsed.noticeAt,
    block,
    refusal: { statusCode: parsed.refusalStatus, message: parsed.refusalMessage },
    ban: toBan(parsed.banAfter, parsed.banFor),
    group: parsed.group,
    priority: parsed.priority,
    methods: method,
    condition,
    startsAtMs: parsed.startsAt,
    endsAtMs: parsed.endsAt,
  }
}
