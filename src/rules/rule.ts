import { type ClientKind, MAX_CLIENT_KIND_LENGTH, parseClientKind } from '../clients/client-kind.js'
import { type FieldErrors, RuleValidationError } from '../ground/errors.js'
import { asText, validateStorable } from '../ground/storable.js'
import type { Algorithm, Policy } from '../limiter/algorithm.js'
import { MAX_RATE_LENGTH, parseRate, toPolicy } from '../limiter/rate.js'
import { BAN_AFTER, BAN_FOR, type RuleBan, toBan } from './ban.js'
import { type Condition, MAX_CONDITION_LENGTH } from './conditions/condition.js'
import { contradictionsIn } from './contradictions.js'
import { COUNTS, type CountedStatuses } from './counted-statuses.js'
import {
  createParser,
  type Description,
  defaultsFor,
  type Extent,
  type Field,
  fieldErrors,
  type Parsed,
  type Row,
  type Values,
} from './description.js'
import {
  ALGORITHM,
  integerWithin,
  MAX_METHOD_LENGTH,
  MAX_PATTERN_LENGTH,
  parseMethods,
  RESERVED_NAMES,
  upTo,
  validateBoolean,
  validateCondition,
  validateLimitName,
  validatePattern,
} from './field-values.js'
import { ENDS_AT, STARTS_AT, type Validity } from './validity.js'

const NAME = /^[\x20-\x2e\x30-\x39\x3b-\x7e][\x20-\x39\x3b-\x7e]{0,99}$/
const PRIORITY_LIMIT = 2_147_483_647
const KEY_OPTIONS = [
  { value: 'ip', label: 'IP address' },
  { value: 'user', label: 'User' },
  { value: 'header:', label: 'Header' },
  { value: 'cookie:', label: 'Cookie' },
  { value: 'route', label: 'Route' },
  { value: 'all', label: 'Nothing: all share one counter' },
]

/** A complete rule of a document. */
export interface RuleEntry {
  readonly name: string
  readonly description: string
  readonly pathPattern: string
  readonly method: string
  readonly condition: string
  readonly rate: string
  readonly key: string
  readonly algorithm: Algorithm
  readonly counts: string
  readonly cost: number
  readonly block: boolean
  readonly refusalStatus: number
  readonly refusalMessage: string
  readonly banAfter: number
  /** Such as `15m`; empty where no client is banned. */
  readonly banFor: string
  readonly isActive: boolean
  /** A moment such as `2030-01-31T12:00:00.000Z`. */
  readonly startsAt: string | null
  readonly endsAt: string | null
  readonly priority: number
}

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
  readonly block: boolean
  readonly refusal: RefusalAnswer
  /** When clients are banned; null where none is. */
  readonly ban: RuleBan | null
  readonly priority: number
  /** Upper-case names, or `['ALL']`. */
  readonly methods: readonly string[]
  /** Absent where the rule is for every request of its path and methods. */
  readonly condition: Condition | undefined
}

const MAX_COST = 1_000_000

/** The part of its limit that a request of a rule uses. */
const COST = {
  kind: 'integer',
  default: 1,
  parse: integerWithin(1, MAX_COST),
  schema: { minimum: 1, maximum: MAX_COST },
  about: 'The part of the limit that a request uses, times the cost of its route.',
  help: 'How much of the rate a request uses: with 10 and a rate of 100/m, ten requests a minute. At most the count of the rate.',
  panel: { title: 'Cost', group: 'Counting', input: 'number' },
} as const satisfies Field

export interface RefusalAnswer {
  /** The status of the answer, 400 to 599. */
  readonly statusCode: number
  /** The message, in which `{seconds}` stands for the wait; empty for the usual one. */
  readonly message: string
}

export const USUAL_ANSWER: RefusalAnswer = { statusCode: 429, message: '' }

const MIN_STATUS = 400
const MAX_STATUS = 599
const MAX_MESSAGE_LENGTH = 500

const REFUSAL_STATUS = {
  kind: 'integer',
  default: USUAL_ANSWER.statusCode,
  parse: integerWithin(MIN_STATUS, MAX_STATUS),
  schema: { minimum: MIN_STATUS, maximum: MAX_STATUS },
  about: 'The status of the answer to a refused request.',
  help: 'The status of the answer to a refused request, 400 to 599. 429 is what clients expect.',
  panel: { title: 'Status', group: 'Refusal', input: 'number' },
} as const satisfies Field

const REFUSAL_MESSAGE = {
  kind: 'text',
  default: USUAL_ANSWER.message,
  parse: upTo(MAX_MESSAGE_LENGTH, validateStorable),
  schema: { maxLength: MAX_MESSAGE_LENGTH },
  about: 'The message of a refusal; {seconds} stands for the wait, 0 where none helps. Empty: the usual one.',
  help: 'What the client reads. {seconds} stands for the wait, 0 where waiting does not help. Empty: "Rate limit exceeded, retry in 12 seconds".',
  panel: {
    title: 'Message',
    group: 'Refusal',
    input: 'text',
    example: 'The sale is busy: try again in {seconds} seconds',
  },
} as const satisfies Field

/** The fields of a rule, in the order of documents. A new field is added here, in the schemas and in a migration. */
const RULE_FIELDS = {
  name: {
    kind: 'text',
    parse: validateName,
    schema: { pattern: NAME.source, not: { enum: RESERVED_NAMES } },
    about: 'Unique. A rule with another name has other counters.',
    help: 'Printable ASCII without a colon, not beginning with a slash. The counters are named after it: a new name starts with new counters.',
    panel: { title: 'Name', group: 'Basics', input: 'text', example: 'api-writes', column: 'sorted', searched: true },
  },
  description: {
    kind: 'text',
    default: '',
    parse: validateStorable,
    enforced: false,
    about: 'A note.',
    help: 'A note for other operators.',
    panel: { title: 'Description', group: 'Basics', input: 'lines', searched: true },
  },
  pathPattern: {
    kind: 'text',
    parse: validatePattern,
    schema: { minLength: 1, maxLength: MAX_PATTERN_LENGTH },
    about: 'A regular expression (RE2) that is searched for in the path.',
    help: 'A regular expression (RE2) that is searched for in the path: ^/api/ for everything below /api.',
    panel: {
      title: 'Path pattern',
      group: 'Target',
      input: 'code',
      example: '^/api/',
      column: 'shown',
      searched: true,
    },
  },
  method: {
    kind: 'text',
    default: 'ALL',
    parse: parseMethods,
    spell: (value) => parseMethods(value).join(','),
    schema: { maxLength: MAX_METHOD_LENGTH },
    about: 'ALL, or a list such as GET,POST.',
    help: 'GET also covers HEAD.',
    panel: { title: 'Methods', group: 'Target', input: 'methods', column: 'shown' },
  },
  condition: {
    kind: 'text',
    default: '',
    parse: validateCondition,
    schema: { maxLength: MAX_CONDITION_LENGTH },
    about: "A boolean expression in CEL, such as user.plan == 'free'; empty is true.",
    help: "Empty: every request. Else an expression in CEL: user.plan == 'free', or request.headers['x-plan'] == 'gold' && request.method == 'POST', or !inNetwork(client.ip, '10.0.0.0/8'), or has(user.id) && request.path.startsWith('/api/').",
    panel: { title: 'Condition', group: 'Condition', input: 'code', example: "user.plan == 'free'", searched: true },
  },
  rate: {
    kind: 'text',
    parse: upTo(MAX_RATE_LENGTH, parseRate),
    schema: { maxLength: MAX_RATE_LENGTH },
    about: 'Such as 100/m, 10/30s, 10000/month, or up to four windows: 10/s, 1000/h.',
    help: 'Requests per period: 100/m, 10/30s, 5000/7d, 10000/month. Up to four windows with commas between: 10/s, 1000/h. A count of 0 refuses everything.',
    panel: { title: 'Rate', group: 'Limit', input: 'code', example: '100/m', column: 'sorted' },
  },
  key: {
    kind: 'text',
    default: 'ip',
    parse: parseClientKind,
    schema: { maxLength: MAX_CLIENT_KIND_LENGTH },
    about: 'ip, user, route, header:<Header-Name> or cookie:<name>, up to three with + between, or all.',
    help: 'What requests are counted by, up to three together. Requests without the user, the header or the cookie are counted by IP address.',
    panel: { title: 'Counted by', group: 'Target', input: 'key', options: KEY_OPTIONS, column: 'shown' },
  },
  algorithm: { ...ALGORITHM, panel: { ...ALGORITHM.panel, group: 'Limit', column: 'sorted' } },
  counts: COUNTS,
  cost: COST,
  block: {
    kind: 'boolean',
    default: true,
    parse: validateBoolean,
    about: 'false counts and logs requests, and refuses none.',
    help: 'Off: requests are counted and logged, and none is refused.',
    panel: { title: 'Blocks', group: 'Limit', input: 'boolean', label: 'Refuse requests over the limit' },
  },
  refusalStatus: REFUSAL_STATUS,
  refusalMessage: REFUSAL_MESSAGE,
  banAfter: BAN_AFTER,
  banFor: BAN_FOR,
  isActive: {
    kind: 'boolean',
    default: true,
    parse: validateBoolean,
    enforced: false,
    about: 'Only active rules apply.',
    panel: { title: 'Active', group: 'Limit', input: 'boolean', label: 'Apply this rule', column: 'sorted' },
  },
  startsAt: STARTS_AT,
  endsAt: ENDS_AT,
  priority: {
    kind: 'integer',
    default: 0,
    parse: integerWithin(-PRIORITY_LIMIT, PRIORITY_LIMIT),
    schema: { minimum: -PRIORITY_LIMIT, maximum: PRIORITY_LIMIT },
    about: 'Of the rules that match, the one with the highest priority decides.',
    panel: { title: 'Priority', group: 'Limit', input: 'number', column: 'sorted' },
  },
} as const satisfies Readonly<Record<keyof RuleEntry, Field>>

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
  hasExpired: () => false,
  order: ({ bytewise }) => `priority DESC, ${bytewise('name')}`,
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
    banAfter: parsedIfValid('banAfter', BAN_AFTER.parse),
    banFor: parsedIfValid('banFor', BAN_FOR.parse),
    startsAt: parsedIfValid('startsAt', STARTS_AT.parse),
    endsAt: parsedIfValid('endsAt', ENDS_AT.parse),
  })
  return { ...contradictions, ...errors }
}

const parseRuleRow = createParser(RULE_FIELDS, 'rule', 'stored')
const parseGiven = createParser(RULE_FIELDS, 'rule', 'given')

/**
 * Parses a stored row.
 *
 * @throws RuleValidationError for a row that was written past the validation
 */
export function parseRule(row: RuleRow): Rule {
  return toRule(parseRuleRow(row))
}

/** Parses a valid rule that has all its fields. */
export function parseGivenRule(values: Values): Rule {
  return toRule(parseGiven(values))
}

/** Creates a rule with every field spelled out, since requests read rules fastest where all have the same shape. */
function toRule(parsed: Parsed<typeof RULE_FIELDS>): Rule {
  const errors = contradictionsIn(parsed)
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  const { name, pathPattern, method, condition, rate, key, algorithm, counts, cost, block, priority } = parsed
  return {
    name,
    pathPattern,
    policy: toPolicy(algorithm, rate),
    client: key,
    counts,
    cost,
    block,
    refusal: { statusCode: parsed.refusalStatus, message: parsed.refusalMessage },
    ban: toBan(parsed.banAfter, parsed.banFor),
    priority,
    methods: method,
    condition,
    startsAtMs: parsed.startsAt,
    endsAtMs: parsed.endsAt,
  }
}

function validateName(value: unknown): string {
  const name = asText(value)
  validateLimitName(name)
  if (!NAME.test(name)) throw new Error('must be 1 to 100 printable ASCII characters without ":"')
  return name
}
