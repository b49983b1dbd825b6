import { METHODS } from 'node:http'
import { type FieldErrors, RuleValidationError } from '../errors.js'
import type { Policy } from '../limiter/algorithm.js'
import { parseRate } from '../limiter/rate.js'
import {
  asText,
  checkAlgorithm,
  checkBoolean,
  checkPattern,
  checkStorable,
  type Extent,
  type Fields,
  fieldErrors,
} from './field-checks.js'

/** A row of the rule table, as the matching needs it. */
export interface RuleRow {
  readonly name: string
  readonly pathPattern: string
  readonly method: string
  readonly rate: string
  readonly key: string
  readonly algorithm: string
  readonly block: boolean
  readonly priority: number
}

/** How the client of a rule is told apart. */
export type ClientKind = { readonly kind: 'ip' } | { readonly kind: 'user' } | { readonly kind: 'header'; name: string }

/** A row that was understood. */
export interface Rule {
  readonly name: string
  readonly pathPattern: string
  readonly policy: Policy
  readonly client: ClientKind
  readonly block: boolean
  readonly priority: number
  /** Upper-case names, or `['ALL']`. */
  readonly methods: readonly string[]
}

export const NAME = /^[\x20-\x39\x3b-\x7e]{1,100}$/
const HEADER_KEY = /^header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100})$/
/** Set on the object that has the headers, a text does nothing. */
const UNREAD_HEADER = '__proto__'
export const MAX_METHOD_LENGTH = 255
export const MAX_RATE_LENGTH = 50
export const PRIORITY_LIMIT = 2_147_483_647

const CHECKS = {
  name: checkName,
  description: checkStorable,
  pathPattern: checkPattern,
  method: parseMethods,
  rate: checkRate,
  key: parseClientKind,
  algorithm: checkAlgorithm,
  block: checkBoolean,
  isActive: checkBoolean,
  priority: checkPriority,
}
const REQUIRED = ['name', 'pathPattern', 'rate']

/**
 * Checks the fields of a rule: the only validation there is, whichever door a rule comes through.
 *
 * @returns one message for every wrong field
 */
export function ruleErrors(fields: Fields, extent: Extent): FieldErrors {
  return fieldErrors(CHECKS, REQUIRED, fields, extent)
}

/** What has to be written otherwise than given: the methods in upper case. */
export function normalRule({ method }: Fields): { method?: string } {
  return method === undefined ? {} : { method: parseMethods(method).join(',') }
}

/**
 * Reads a stored row.
 *
 * @throws RuleValidationError for a row that reached the table past the validation
 */
export function parseRule(row: RuleRow): Rule {
  const errors = ruleErrors({ ...row }, 'new')
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  const { limit, periodMs } = parseRate(row.rate)
  return {
    name: row.name,
    pathPattern: row.pathPattern,
    policy: { algorithm: checkAlgorithm(row.algorithm), limit, periodMs },
    client: parseClientKind(row.key),
    block: row.block,
    priority: row.priority,
    methods: parseMethods(row.method),
  }
}

/** The methods of a rule, in upper case: `get, post` is `['GET', 'POST']`. */
export function parseMethods(value: unknown): string[] {
  const text = asText(value).toUpperCase()
  const methods = [...new Set(text.split(',').map((name) => name.trim()))]
  if (methods.length === 1 && methods[0] === 'ALL') return methods
  const wrong = methods.find((name) => !METHODS.includes(name))
  if (wrong !== undefined) {
    throw new Error(`${JSON.stringify(wrong)} is no HTTP method: give ALL or a list such as GET,POST`)
  }
  if (methods.join(',').length > MAX_METHOD_LENGTH) throw new Error('is too long: give ALL')
  return methods
}

/** Reads a key kind: `ip`, `user` or `header:<Header-Name>`. */
export function parseClientKind(value: unknown): ClientKind {
  const text = asText(value)
  if (text === 'ip' || text === 'user') return { kind: text }
  const name = HEADER_KEY.exec(text)?.[1]
  if (name === undefined) {
    throw new Error(`${JSON.stringify(text)} is no key: give ip, user or header:<Header-Name>`)
  }
  if (name.toLowerCase() === UNREAD_HEADER) {
    throw new Error(`${JSON.stringify(text)} names a header whose value Node.js does not keep: give another header`)
  }
  return { kind: 'header', name: name.toLowerCase() }
}

function checkName(value: unknown): void {
  if (!NAME.test(asText(value))) throw new Error('must be 1 to 100 printable ASCII characters without ":"')
}

function checkRate(value: unknown): void {
  const rate = asText(value)
  parseRate(rate)
  if (rate.length > MAX_RATE_LENGTH) throw new Error(`must be at most ${MAX_RATE_LENGTH} characters long`)
}

function checkPriority(value: unknown): void {
  if (!Number.isInteger(value) || Math.abs(Number(value)) > PRIORITY_LIMIT) {
    throw new Error(`must be an integer between -${PRIORITY_LIMIT} and ${PRIORITY_LIMIT}`)
  }
}
