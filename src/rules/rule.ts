import { METHODS } from 'node:http'
import { RE2JS } from 're2js'
import { messageOf, RuleValidationError } from '../errors.js'
import { ALGORITHMS, type Algorithm, type Policy } from '../limiter/algorithm.js'
import { parseRate } from '../limiter/rate.js'

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

const NAME = /^[\x20-\x39\x3b-\x7e]{1,100}$/
const HEADER_KEY = /^header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100})$/
const MAX_PATTERN_LENGTH = 255
const MAX_METHOD_LENGTH = 255
const MAX_RATE_LENGTH = 50
const PRIORITY_LIMIT = 2_147_483_647

/** One check per field that can be wrong; each throws an error whose message goes beside the field. */
const CHECKS: Readonly<Record<string, (value: unknown) => unknown>> = {
  name: checkName,
  description: checkDescription,
  pathPattern: checkPattern,
  method: parseMethods,
  rate: checkRate,
  key: parseClientKind,
  algorithm: checkAlgorithm,
  priority: checkPriority,
}
const REQUIRED = ['name', 'pathPattern', 'rate']

/**
 * Checks the fields of a rule: the only validation there is, whichever door a rule comes through.
 *
 * @param fields the fields to be written; one that is `undefined` stays as it is, or takes its default
 * @param isNew whether the required fields must be among them
 * @returns what has to be written otherwise than given: the methods in upper case
 * @throws RuleValidationError with a message for every wrong field
 */
export function validateRule(fields: Readonly<Record<string, unknown>>, isNew: boolean): { method?: string } {
  const errors: Record<string, string> = {}
  for (const [field, check] of Object.entries(CHECKS)) {
    const value = fields[field]
    if (value === undefined) {
      if (isNew && REQUIRED.includes(field)) errors[field] = 'is required'
      continue
    }
    try {
      check(value)
    } catch (error) {
      errors[field] = messageOf(error)
    }
  }
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  return fields.method === undefined ? {} : { method: parseMethods(fields.method).join(',') }
}

/**
 * Reads a stored row.
 *
 * @throws RuleValidationError for a row that reached the table past the validation
 */
export function parseRule(row: RuleRow): Rule {
  validateRule({ ...row }, true)
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
  return { kind: 'header', name: name.toLowerCase() }
}

/** @throws Error for what RE2 does not understand, and so for all that is not matched in linear time */
function compilePattern(pattern: string): void {
  try {
    RE2JS.compile(pattern)
  } catch (error) {
    const unsupported = /\(\?(?:[=!>]|<[=!])|\\[1-9]|\\k</.exec(pattern)?.[0]
    throw new Error(
      unsupported === undefined
        ? `is no regular expression: ${messageOf(error).replace(/^error parsing regexp: /, '')}`
        : `uses ${unsupported} (look-around, atomic group or back-reference), which RE2 does not have: a rule's pattern must be matched in linear time`,
    )
  }
}

/** @throws Error for an algorithm that does not exist */
export function checkAlgorithm(value: unknown): Algorithm {
  const algorithm = ALGORITHMS.find((known) => known === value)
  if (algorithm !== undefined) return algorithm
  throw new Error(`${JSON.stringify(value)} is no algorithm: give ${ALGORITHMS.join(', ')}`)
}

function checkName(value: unknown): void {
  if (!NAME.test(asText(value))) throw new Error('must be 1 to 100 printable ASCII characters without ":"')
}

function checkPattern(value: unknown): void {
  const pattern = asText(value)
  if (pattern.length === 0 || pattern.length > MAX_PATTERN_LENGTH) {
    throw new Error(`must be 1 to ${MAX_PATTERN_LENGTH} characters long`)
  }
  checkStorable(pattern)
  compilePattern(pattern)
}

function checkDescription(value: unknown): void {
  checkStorable(asText(value))
}

/** Databases refuse these. */
function checkStorable(text: string): void {
  if (text.includes('\0')) throw new Error('must not contain NUL')
  if (!text.isWellFormed()) throw new Error('must not contain half a surrogate pair')
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

function asText(value: unknown): string {
  if (typeof value !== 'string') throw new Error('must be a text')
  return value
}
