/** The fields of a rule: how each is parsed, stored and explained. */

import { BOOLEAN, type Field, integer, upTo } from '../ground/field.js'
import { asText, validateStorable } from '../ground/storable.js'
import type { Algorithm } from '../limiter/algorithm.js'
import { limitFields } from '../limiter/limit/limit-fields.js'
import { RESERVED_NAMES, validateLimitName } from '../limiter/limit-name.js'
import { BAN_AFTER, BAN_FOR } from './ban.js'
import { MAX_CONDITION_LENGTH } from './conditions/condition.js'
import {
  MAX_METHOD_LENGTH,
  MAX_PATTERN_LENGTH,
  parseMethods,
  validateCondition,
  validatePattern,
} from './field-values.js'
import { GROUP } from './group.js'
import { REFUSAL_MESSAGE, REFUSAL_STATUS } from './refusal-answer.js'
import { ENDS_AT, STARTS_AT } from './validity.js'

const NAME = /^[\x20-\x2e\x30-\x39\x3b-\x7e][\x20-\x39\x3b-\x7e]{0,99}$/
/** The length is that of an override's note. */
const MAX_DESCRIPTION_LENGTH = 1_000
const PRIORITY_LIMIT = 2_147_483_647

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

const LIMIT = limitFields('rule')
const MAX_COST = 1_000_000

/**
 * The fields of a rule, in the order of documents: those of a limit, and what else rules have. A new field is added here or to
 * `LIMIT_FIELDS`, in the schemas and in a migration.
 */
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
  ...LIMIT,
  algorithm: { ...LIMIT.algorithm, panel: { ...LIMIT.algorithm.panel, group: 'Limit', column: 'sorted' } },
  cost: { ...LIMIT.cost, ...integer(1, MAX_COST) },
  refusalStatus: REFUSAL_STATUS,
  refusalMessage: REFUSAL_MESSAGE,
  banAfter: BAN_AFTER,
  banFor: BAN_FOR,
  isActive: {
    ...BOOLEAN,
    default: true,
    enforced: false,
    about: 'Only active rules apply.',
    panel: {
      title: 'Active',
      noun: 'activity',
      group: 'Limit',
      input: 'boolean',
      label: 'Apply this rule',
      column: 'sorted',
    },
  },
  startsAt: STARTS_AT,
  endsAt: ENDS_AT,
  group: GROUP,
  priority: {
    ...integer(-PRIORITY_LIMIT, PRIORITY_LIMIT),
    default: 0,
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
