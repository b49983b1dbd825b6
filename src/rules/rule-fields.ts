/** The fields of a rule: how each is parsed, stored and explained. */

import { MAX_CLIENT_KIND_LENGTH, parseClientKind, spellClientKind } from '../clients/client-kind.js'
import { asText, validateStorable } from '../ground/storable.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { RESERVED_NAMES, validateLimitName } from '../limiter/limit-name.js'
import { MAX_RATE_LENGTH, parseRate } from '../limiter/rate.js'
import { spellRate } from '../limiter/rate-words.js'
import { BAN_AFTER, BAN_FOR } from './ban.js'
import { MAX_CONDITION_LENGTH } from './conditions/condition.js'
import { COUNTS } from './counted-statuses.js'
import type { Field } from './description.js'
import {
  ALGORITHM,
  integerWithin,
  MAX_METHOD_LENGTH,
  MAX_PATTERN_LENGTH,
  parseMethods,
  upTo,
  validateBoolean,
  validateCondition,
  validatePattern,
} from './field-values.js'
import { GROUP } from './group.js'
import { NOTICE_AT } from './notice-at.js'
import { REFUSAL_MESSAGE, REFUSAL_STATUS } from './refusal-answer.js'
import { RESERVE, UNIT } from './unit.js'
import { ENDS_AT, STARTS_AT } from './validity.js'

const NAME = /^[\x20-\x2e\x30-\x39\x3b-\x7e][\x20-\x39\x3b-\x7e]{0,99}$/
/** The length is that of an override's note. */
const MAX_DESCRIPTION_LENGTH = 1_000
const PRIORITY_LIMIT = 2_147_483_647
const KEY_OPTIONS = [
  { value: 'ip', label: 'IP address' },
  { value: 'user', label: 'User' },
  { value: 'user.', label: 'Field of the user, such as user.org' },
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
  readonly unit: string
  readonly reserve: number
  /** Percentages of a window, such as `80,100`; empty where nobody is told. */
  readonly noticeAt: string
  readonly block: boolean
  readonly refusalStatus: number
  readonly refusalMessage: string
  readonly banAfter: number
  /** The time of bans, such as `15m`; empty where no client is banned. */
  readonly banFor: string
  readonly isActive: boolean
  /** A moment such as `2030-01-31T12:00:00.000Z`. */
  readonly startsAt: string | null
  readonly endsAt: string | null
  /** The group, of which the first rule that matches applies; empty for the one without a name. */
  readonly group: string
  readonly priority: number
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

/** The fields of a rule, in the order of documents. A new field is added here, in the schemas and in a migration. */
export const RULE_FIELDS = {
  name: {
    kind: 'text',
    parse: validateName,
    guess: spellName,
    schema: { pattern: NAME.source, not: { enum: RESERVED_NAMES } },
    about: 'Unique. A rule with another name has other counters.',
    help: 'Printable ASCII without a colon, not beginning with a slash. The counters are named after it: a new name starts with new counters.',
    panel: { title: 'Name', group: 'Basics', input: 'text', example: 'api-writes', column: 'sorted', searched: true },
  },
  description: {
    kind: 'text',
    default: '',
    parse: upTo(MAX_DESCRIPTION_LENGTH, validateStorable),
    enforced: false,
    schema: { maxLength: MAX_DESCRIPTION_LENGTH },
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
    tidy: (typed) => typed.trim().replace(/[\s,;]+/g, ','),
    guess: (typed) => (/^(?:\*|any|every|all methods)$/i.test(typed) ? 'ALL' : undefined),
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
    help: "Empty: every request. Else an expression in CEL: user.plan == 'free', or request.headers['x-plan'] == 'gold' && request.method == 'POST', or !inNetwork(client.ip, '10.0.0.0/8'), or client.country == 'DE', or client.asn == 64500, or has(user.id) && request.path.startsWith('/api/').",
    panel: { title: 'Condition', group: 'Condition', input: 'code', example: "user.plan == 'free'", searched: true },
  },
  rate: {
    kind: 'text',
    parse: upTo(MAX_RATE_LENGTH, parseRate),
    tidy: (typed) => typed.replace(/\s/g, '').toLowerCase(),
    guess: spellRate,
    schema: { maxLength: MAX_RATE_LENGTH },
    about: 'Such as 100/m, 10/30s, 10000/month, or up to four windows: 10/s, 1000/h.',
    help: 'Requests per period: 100/m, 10/30s, 5000/7d, 10000/month. Up to four windows with commas between: 10/s, 1000/h. A count of 0 refuses everything.',
    panel: { title: 'Rate', group: 'Limit', input: 'code', example: '100/m', column: 'sorted' },
  },
  key: {
    kind: 'text',
    default: 'ip',
    parse: parseClientKind,
    tidy: spellClientKind,
    guess: (typed) => spellClientKind(typed.replace(/\s*(?:,|&|\band\b)\s*/gi, '+')),
    schema: { maxLength: MAX_CLIENT_KIND_LENGTH },
    about: 'ip, user, user.<field>, route, header:<Header-Name> or cookie:<name>, up to three with + between, or all.',
    help: 'What requests are counted by, up to three together. user.org is a field of what the option user answers. Requests without the user, the field, the header or the cookie are counted by IP address.',
    panel: { title: 'Counted by', group: 'Target', input: 'key', options: KEY_OPTIONS, column: 'shown' },
  },
  algorithm: { ...ALGORITHM, panel: { ...ALGORITHM.panel, group: 'Limit', column: 'sorted' } },
  counts: COUNTS,
  cost: COST,
  unit: UNIT,
  reserve: RESERVE,
  noticeAt: NOTICE_AT,
  block: {
    kind: 'boolean',
    default: true,
    parse: validateBoolean,
    about: 'false counts and logs requests, and refuses none.',
    help: 'Off: requests are counted and logged, and none is refused.',
    panel: { title: 'Refuses', group: 'Limit', input: 'boolean', label: 'Refuse requests over the limit' },
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
  group: GROUP,
  priority: {
    kind: 'integer',
    default: 0,
    parse: integerWithin(-PRIORITY_LIMIT, PRIORITY_LIMIT),
    schema: { minimum: -PRIORITY_LIMIT, maximum: PRIORITY_LIMIT },
    about: 'Of the rules of a group that match, the one with the highest priority applies.',
    panel: { title: 'Priority', group: 'Limit', input: 'number', column: 'sorted' },
  },
} as const satisfies Readonly<Record<keyof RuleEntry, Field>>

function validateName(value: unknown): string {
  const name = asText(value)
  validateLimitName(name)
  if (!NAME.test(name)) throw new Error('must be 1 to 100 printable ASCII characters without ":"')
  return name
}

/** Returns a name that is allowed, with most letters of one that is not. */
function spellName(typed: string): string {
  const name = typed
    .replace(/[^\x20-\x7e]+|:/g, '-')
    .replace(/^[/-]+|-+$/g, '')
    .slice(0, 100)
  return RESERVED_NAMES.includes(name) ? `${name}-rule` : name
}
