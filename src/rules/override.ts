import ipaddr from 'ipaddr.js'
import { type FieldErrors, RuleValidationError } from '../errors.js'
import { IsDateTime } from '../generated/typebox.js'
import type { Policy } from '../limiter/algorithm.js'
import { parseRate } from '../limiter/rate.js'
import {
  asText,
  checkAlgorithm,
  checkPattern,
  checkStorable,
  type Extent,
  type Fields,
  fieldErrors,
} from './field-checks.js'
import { type ParsedNetwork, parseNetwork, wholeBits } from './network.js'

/** Whom an override is for. */
export type OverrideClient = ({ readonly kind: 'ip' } & ParsedNetwork) | { readonly kind: 'user'; readonly id: string }

/** A row of the override table, as the matching needs it. */
export interface OverrideRow {
  readonly client: string
  readonly effect: string
  readonly algorithm: string
  /** Empty: every path. */
  readonly pathPattern: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | null
}

/** A row that was understood. */
export interface Override {
  readonly client: OverrideClient
  /** A policy where the client has a rate of its own. */
  readonly effect: 'deny' | 'allow' | Policy
  readonly pathPattern: string
  readonly expiresAtMs: number | null
}

export const MAX_CLIENT_LENGTH = 255
export const MAX_EFFECT_LENGTH = 50
export const MAX_NOTE_LENGTH = 1_000

const CHECKS = {
  client: canonicalClient,
  effect: parseEffect,
  algorithm: checkAlgorithm,
  pathPattern: (value: unknown) => value === '' || checkPattern(value),
  expiresAt: parseExpiry,
  note: checkNote,
}
const REQUIRED = ['client', 'effect']
const NO_MOMENT = 'is no moment: give milliseconds since the epoch, or null for never'

/**
 * Checks the fields of an override: the only validation there is, whichever door an override comes through.
 *
 * @param nowMs a new override that has expired by then is refused
 * @returns one message for every wrong field
 */
export function overrideErrors(fields: Fields, extent: Extent, nowMs: number): FieldErrors {
  const errors = fieldErrors(CHECKS, REQUIRED, fields, extent)
  if (extent !== 'new' || 'expiresAt' in errors || fields.expiresAt === undefined) return errors
  const expiresAt = parseExpiry(fields.expiresAt)
  const isPast = expiresAt !== null && expiresAt.getTime() <= nowMs
  return isPast ? { ...errors, expiresAt: 'is past: give a moment to come, or none' } : errors
}

/** What has to be written otherwise than given: the client in its one spelling. */
export function normalOverride({ client }: Fields): { client?: string } {
  return client === undefined ? {} : { client: canonicalClient(client) }
}

/**
 * Reads a stored row.
 *
 * @throws RuleValidationError for a row that reached the table past the validation
 */
export function parseOverride(row: OverrideRow): Override {
  try {
    return understood(row)
  } catch {
    const { client, effect, algorithm, pathPattern, expiresAt } = row
    const errors = fieldErrors(CHECKS, REQUIRED, { client, effect, algorithm, pathPattern }, 'stored')
    const expiry = isStoredMoment(expiresAt) ? {} : { expiresAt: NO_MOMENT }
    throw new RuleValidationError({ ...errors, ...expiry }, [], 'override')
  }
}

/** Reads each field once: there may be a hundred thousand rows. */
function understood({ client, effect, algorithm, pathPattern, expiresAt }: OverrideRow): Override {
  const counting = checkAlgorithm(algorithm)
  const parsed = parseEffect(effect)
  CHECKS.pathPattern(pathPattern)
  if (!isStoredMoment(expiresAt)) throw new Error(NO_MOMENT)
  return {
    client: parseOverrideClient(client),
    effect: typeof parsed === 'string' ? parsed : { algorithm: counting, ...parsed },
    pathPattern,
    expiresAtMs: expiresAt,
  }
}

/** SQLite keeps whatever raw SQL gives it, in a column of moments too. */
function isStoredMoment(expiresAt: number | null): boolean {
  return expiresAt === null || (typeof expiresAt === 'number' && !Number.isNaN(new Date(expiresAt).getTime()))
}

/** Reads `ip:203.0.113.7`, `ip:10.0.0.0/8`, `ip:2001:db8::/32` or `user:7`. IPv4-mapped IPv6 is IPv4. */
export function parseOverrideClient(value: unknown): OverrideClient {
  const text = asText(value)
  checkStorable(text)
  if (text.length > MAX_CLIENT_LENGTH) throw new Error(`must be at most ${MAX_CLIENT_LENGTH} characters long`)
  const [, kind, name = ''] = /^(ip|user):(.*)$/s.exec(text) ?? []
  if (kind === 'ip') return clientNetwork(name)
  const id = name.trim()
  if (kind === 'user' && id !== '') return { kind, id }
  throw new Error(
    `${JSON.stringify(text)} is no client: give ip:203.0.113.7, ip:10.0.0.0/8, ip:2001:db8::/32 or user:<id>`,
  )
}

function canonicalClient(value: unknown): string {
  return clientText(parseOverrideClient(value))
}

/** The one spelling of a client. */
export function clientText(client: OverrideClient): string {
  if (client.kind === 'user') return `user:${client.id}`
  const isWhole = client.bits === wholeBits(client.family)
  return `ip:${client.address}${isWhole ? '' : `/${client.bits}`}`
}

function clientNetwork(text: string): OverrideClient {
  const parsed = parseNetwork(text)
  const { family, address, bits } = parsed
  const network = networkOf(address, bits, family)
  // Not cleared silently: whoever wrote 10.1.2.3/8 may have meant the one address.
  if (network !== address)
    throw new Error(`${text} names more than its /${bits}: give ${network}/${bits} or ${address}`)
  return { kind: 'ip', ...parsed }
}

function networkOf(address: string, bits: number, family: 'ipv4' | 'ipv6'): string {
  if (bits === wholeBits(family)) return address
  const parser = family === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  return parser.networkAddressFromCIDR(`${address}/${bits}`).toString()
}

/** Reads `deny`, `allow` or a rate. */
function parseEffect(value: unknown): 'deny' | 'allow' | { readonly limit: number; readonly periodMs: number } {
  const text = asText(value)
  if (text === 'deny' || text === 'allow') return text
  if (!/^\d/.test(text)) {
    throw new Error(`${JSON.stringify(text)} is no effect: give deny, allow, or a rate such as 20/m`)
  }
  const { limit, periodMs } = parseRate(text)
  if (text.length > MAX_EFFECT_LENGTH) throw new Error(`must be at most ${MAX_EFFECT_LENGTH} characters long`)
  return { limit, periodMs }
}

/** Not every text that JavaScript reads: it makes March of the 31st of February, and this machine's time of no zone. */
function parseExpiry(value: unknown): Date | null {
  if (value === null) return null
  const isGiven = value instanceof Date || (typeof value === 'string' && IsDateTime(value))
  const moment = new Date(isGiven ? value : Number.NaN)
  const year = moment.getUTCFullYear()
  if (year >= 1 && year <= 9_999) return moment
  throw new Error(
    `${JSON.stringify(value)} is no moment: give a Date, a text such as 2027-01-31T12:00:00Z, or null for never`,
  )
}

function checkNote(value: unknown): void {
  checkStorable(value)
  if (asText(value).length > MAX_NOTE_LENGTH) throw new Error(`must be at most ${MAX_NOTE_LENGTH} characters long`)
}
