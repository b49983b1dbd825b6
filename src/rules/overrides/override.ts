import {
  clientText,
  guessClient,
  MAX_CLIENT_LENGTH,
  parseOverrideClient,
  parseTypedClient,
} from '../../clients/override-client.js'
import type { FieldErrors } from '../../ground/errors.js'
import { type Field, upTo } from '../../ground/field.js'
import { asText, validateStorable } from '../../ground/storable.js'
import { latestStartMs } from '../../ground/time/clock.js'
import type { Algorithm, Policy } from '../../limiter/algorithm.js'
import { LIMIT_FIELDS } from '../../limiter/limit/limit-fields.js'
import { findRateProblem, MAX_RATE_LENGTH, parseRate, type Rate, toPolicy } from '../../limiter/rate.js'
import { DURATIONS, readDuration, spellRate } from '../../limiter/rate-words.js'
import {
  createParser,
  type Description,
  type Extent,
  type Parsed,
  parseFields,
  type Row,
  type Values,
} from '../description.js'
import { MAX_PATTERN_LENGTH, validatePattern } from '../field-values.js'
import { parseMoment } from '../moment.js'

const MAX_EFFECT_LENGTH = MAX_RATE_LENGTH
const MAX_NOTE_LENGTH = 1_000

/** An override of a document, complete. */
export interface OverrideEntry {
  readonly client: string
  readonly effect: string
  readonly algorithm: Algorithm
  readonly pathPattern: string
  /** A moment such as `2030-01-31T12:00:00.000Z`. */
  readonly expiresAt: string | null
  readonly note: string
}

/** The fields of an override, in the order of documents. */
const OVERRIDE_FIELDS = {
  client: {
    kind: 'text',
    parse: parseTypedClient,
    parseStored: parseOverrideClient,
    spell: (value) => clientText(parseTypedClient(value)),
    guess: guessClient,
    schema: { maxLength: MAX_CLIENT_LENGTH },
    about: 'ip:203.0.113.7, ip:10.0.0.0/8 or user:<id>; a bare address or network is stored with ip: before it.',
    help: 'An address, a network or a user: 203.0.113.7, 10.0.0.0/8, 2001:db8::/32, user:42.',
    panel: { title: 'Client', input: 'code', example: 'ip:203.0.113.7', column: 'sorted', searched: true },
  },
  effect: {
    kind: 'text',
    parse: upTo(MAX_EFFECT_LENGTH, (text) => parseEffect(spellEffect(text))),
    parseStored: upTo(MAX_EFFECT_LENGTH, parseEffect),
    spell: spellEffect,
    tidy: tidyEffect,
    guess: guessEffect,
    schema: { maxLength: MAX_EFFECT_LENGTH },
    about: 'deny (or block), allow (or exempt), or a rate.',
    help: 'block (or deny) denies its requests, exempt (or allow) lets them through, and a rate such as 20/m limits them.',
    panel: { title: 'Effect', input: 'code', example: 'block, exempt or 20/m', column: 'sorted' },
  },
  algorithm: { ...LIMIT_FIELDS.algorithm, help: 'How a rate is counted.' },
  pathPattern: {
    kind: 'text',
    default: '',
    parse: (value) => (value === '' ? '' : validatePattern(value)),
    schema: { maxLength: MAX_PATTERN_LENGTH },
    about: 'A regular expression (RE2) that is searched for in the path. Empty: every path.',
    panel: { title: 'Path pattern', input: 'code', example: '^/api/', column: 'shown', searched: true },
  },
  expiresAt: {
    kind: 'moment',
    default: null,
    parse: parseExpiry,
    about: 'The expiry, such as 2030-01-31T12:00:00Z; null for none. Expired overrides are left out.',
    help: 'Empty: it never expires.',
    panel: { title: 'Expires', noun: 'end', input: 'expiry', column: 'sorted' },
  },
  note: {
    kind: 'text',
    default: '',
    parse: upTo(MAX_NOTE_LENGTH, validateStorable),
    enforced: false,
    schema: { maxLength: MAX_NOTE_LENGTH },
    about: 'A note.',
    help: 'The reason, for other operators.',
    panel: { title: 'Note', input: 'lines', column: 'shown', searched: true },
  },
} as const satisfies Readonly<Record<keyof OverrideEntry, Field>>

/** A row of the override table, as far as matching needs it; moments in milliseconds since the epoch. */
export type OverrideRow = Row<typeof OVERRIDE_FIELDS> & { readonly bannedAt?: number | null }

/** A parsed row. */
export interface Override extends Omit<Parsed<typeof OVERRIDE_FIELDS>, 'effect' | 'algorithm' | 'expiresAt'> {
  /** A policy where the client has a rate of its own. */
  readonly effect: 'deny' | 'allow' | Policy
  readonly expiresAtMs: number | null
  /** The time from which a rule bans the client; null for other overrides. */
  readonly bannedAtMs: number | null
}

export const OVERRIDES: Description<typeof OVERRIDE_FIELDS, 'client' | 'pathPattern'> = {
  entity: 'override',
  list: 'overrides',
  table: 'rate_limit_override',
  fields: OVERRIDE_FIELDS,
  identity: ['client', 'pathPattern'],
  identify: ({ client, pathPattern }) => ({ client, pathPattern }),
  errors: overrideErrors,
  shorthand: {
    name: 'for',
    replaces: 'expiresAt',
    schema: { type: 'string', description: `The duration instead of the expiry: ${DURATIONS}.` },
    parse: (value, nowMs) => new Date(nowMs + parseDuration(value)).toISOString(),
  },
  hasExpired: ({ expiresAt }, nowMs) => expiresAt !== null && Date.parse(expiresAt) <= nowMs,
  order: ({ bytewise }) => `${bytewise('client')}, ${bytewise('path_pattern')}`,
}

/**
 * Validates the fields of an override.
 *
 * @param nowMs a new override that has expired by then is refused
 * @returns one message for every wrong field
 */
export function overrideErrors(values: Values, extent: Extent, nowMs: number): FieldErrors {
  const { parsed, errors } = parseFields(OVERRIDE_FIELDS, values, extent)
  const { effect, algorithm, expiresAt } = parsed
  if (typeof effect === 'object' && algorithm !== undefined) {
    const problem = findRateProblem(algorithm, effect)
    if (problem !== undefined) errors.effect = problem
  }
  if (extent === 'new' && expiresAt != null && expiresAt <= nowMs) {
    errors.expiresAt = 'is in the past: give a later moment, or none'
  }
  return errors
}

const parseOverrideRow = createParser(OVERRIDE_FIELDS, 'override', 'stored')

/**
 * Parses a stored row.
 *
 * @throws RuleValidationError or InvalidRateError for a row that was written past the validation
 */
export function parseOverride(row: OverrideRow): Override {
  const { client, effect, algorithm, pathPattern, expiresAt } = parseOverrideRow(row)
  return {
    client,
    effect: typeof effect === 'string' ? effect : toPolicy(algorithm, effect),
    pathPattern,
    expiresAtMs: expiresAt,
    bannedAtMs: row.bannedAt ?? null,
  }
}

/** Returns whether an override has not expired. A ban that begins far ahead was written by a wrong clock. */
export function isInForce({ expiresAtMs, bannedAtMs }: Override, nowMs: number): boolean {
  if (expiresAtMs === null) return true
  return nowMs < expiresAtMs && (bannedAtMs === null || bannedAtMs <= latestStartMs(nowMs, expiresAtMs - bannedAtMs))
}

function parseExpiry(value: unknown): number | null {
  if (typeof value === 'string' && readDuration(value) !== undefined) {
    throw new Error(
      `${JSON.stringify(value)} is a duration: give it as "for" instead, or a moment such as 2027-01-31T12:00:00Z`,
    )
  }
  return parseMoment(value)
}

function parseDuration(value: unknown): number {
  const text = asText(value)
  const lengthMs = readDuration(text)
  if (lengthMs !== undefined) return lengthMs
  throw new Error(`${JSON.stringify(text)} is not a valid duration: give ${DURATIONS}`)
}

/** The words that people say for an effect. */
const EFFECT_WORDS: ReadonlyMap<string, 'deny' | 'allow'> = new Map([
  ['deny', 'deny'],
  ['block', 'deny'],
  ['allow', 'allow'],
  ['exempt', 'allow'],
])

/** Returns an effect as it is stored. */
function spellEffect(value: unknown): string {
  const text = asText(value)
  return EFFECT_WORDS.get(text.trim().toLowerCase()) ?? text
}

function tidyEffect(typed: string): string {
  return /^\d/.test(typed) ? typed.replace(/\s/g, '').toLowerCase() : typed
}

/** Other words that people say for an effect. */
const MEANT = [
  [/^(?:ban|banned|blocked|denied|refuse|reject|forbid)$/i, 'block'],
  [/^(?:allowed|exempted|exemption|pass|permit|unlimited|whitelist)$/i, 'exempt'],
] as const

function guessEffect(typed: string): string | undefined {
  return MEANT.find(([words]) => words.test(typed.trim()))?.[1] ?? spellRate(typed)
}

/** Parses `deny`, `allow` or a rate. */
function parseEffect(value: unknown): 'deny' | 'allow' | Rate {
  const text = asText(value)
  if (text === 'deny' || text === 'allow') return text
  if (!/^\d/.test(text)) {
    throw new Error(`${JSON.stringify(text)} is not a valid effect: give deny, allow, or a rate such as 20/m`)
  }
  return parseRate(text)
}
