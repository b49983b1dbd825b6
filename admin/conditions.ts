/** Turns the filters of a list into Prisma's conditions. The resource chooses the meaning of a filter. */

import type { AddressPrivacy } from '../src/clients/address-privacy.js'
import { DEFAULT_LIMIT } from '../src/clients/counter.js'

/** A condition for Prisma. */
export type Condition = Readonly<Record<string, unknown>>

/** @returns undefined for an empty or invalid value */
export type FilterKind = (field: string, value: unknown) => Condition | undefined

/** The unvalidated filters of a list, by name. */
export type FilterValues = Readonly<Record<string, unknown>>

export type Provider = 'sqlite' | 'postgresql'

/** Longer than any sensible filter. */
const MAX_LENGTH = 500
const MAX_CODE_POINT = 0x10ffff

export const isExactly: FilterKind = (field, value) => {
  const text = toFilterText(value)
  return text === '' ? undefined : { [field]: text }
}

/**
 * Creates a filter for a client, or its key, that an operator spells with its address.
 *
 * @param privacy how addresses are stored; undefined where they are stored in full
 */
export function isLogged(privacy: AddressPrivacy | undefined): FilterKind {
  return (field, value) => isExactly(field, privacy === undefined ? value : privacy.toLogged(toFilterText(value)))
}

/**
 * Creates a filter for texts with a beginning, case-sensitive. SQLite's `LIKE` ignores case, and Prisma gives it no
 * escape character, but SQLite compares texts by bytes; PostgreSQL compares them by its locale.
 */
export function beginsWith(provider: Provider): FilterKind {
  return (field, value) => {
    const text = toFilterText(value)
    if (text === '') return undefined
    if (provider === 'postgresql') return { [field]: { startsWith: escaped(text) } }
    const end = afterAllThatBeginWith(text)
    // As an exclusion, since SQLite would use the field's index for a range, and then sort all rows that it finds.
    return { NOT: [{ [field]: { lt: text } }, ...(end === undefined ? [] : [{ [field]: { gte: end } }])] }
  }
}

/**
 * Creates the same filter for counters: it finds those of a limit, and those of a client in the default limit. An address
 * finds its pseudonym, too.
 */
export function beginsWithCounted(provider: Provider, privacy: AddressPrivacy | undefined): FilterKind {
  const begins = beginsWith(provider)
  return (field, value) => {
    const typed = toFilterText(value)
    const counted = privacy?.toCounted(typed) ?? typed
    const texts = [...new Set([typed, counted])].flatMap((text) => [text, `${DEFAULT_LIMIT}|${text}`])
    return typed === '' ? begins(field, value) : { OR: texts.map((text) => begins(field, text)) }
  }
}

export const isTrue: FilterKind = (field, value) => {
  return value === 'true' || value === 'false' ? { [field]: value === 'true' } : undefined
}

/** Filters by a `{ from, to }` of moments. */
export const isWithin: FilterKind = (field, value) => {
  if (typeof value !== 'object' || value === null) return undefined
  const from = toMoment(Reflect.get(value, 'from'))
  const to = toMoment(Reflect.get(value, 'to'))
  if (from === undefined && to === undefined) return undefined
  return { [field]: { ...(from && { gte: from }), ...(to && { lte: to }) } }
}

/** A search in a list. */
export interface Search {
  readonly condition: Condition
  /** Returns whether a row matches, where the condition finds more rows than the search means. */
  readonly isMeant: ((row: Readonly<Record<string, unknown>>) => boolean) | undefined
}

/** A field that is searched for the whole text, too, in other spellings. */
export interface Spelled {
  readonly field: string
  readonly spell: (text: string) => readonly string[]
}

/** Widens a search by the other spellings of its text. */
export function orSpelled({ condition, isMeant }: Search, { field, spell }: Spelled, value: unknown): Search {
  const spellings = spell(toFilterText(value))
  return {
    condition: { OR: [condition, { [field]: { in: spellings } }] },
    isMeant: isMeant && ((row) => isMeant(row) || spellings.includes(String(row[field]))),
  }
}

/**
 * Creates a search for a text in one of several fields, ignoring case. With Prisma, SQLite's `LIKE` has no escape
 * character, and it knows the case of ASCII letters only: the condition matches any character in such places.
 *
 * @returns undefined for an empty or invalid value
 */
export function searchIn(fields: readonly string[], value: unknown, provider: Provider): Search | undefined {
  const text = toFilterText(value)
  if (text === '') return undefined
  const anyContains = (pattern: object) => ({ OR: fields.map((field) => ({ [field]: pattern })) })
  if (provider === 'postgresql') {
    return { condition: anyContains({ contains: escaped(text), mode: 'insensitive' }), isMeant: undefined }
  }
  const pattern = text.replace(/[%_]|\P{ASCII}/gu, '_')
  const lowered = text.toLowerCase()
  return {
    condition: anyContains({ contains: pattern }),
    isMeant: pattern.includes('_')
      ? (row) => fields.some((field) => String(row[field]).toLowerCase().includes(lowered))
      : undefined,
  }
}

/**
 * Returns the conditions of a list's filters.
 *
 * @param kinds the known filters; others are ignored
 */
export function toConditions(kinds: Readonly<Record<string, FilterKind>>, values: FilterValues): Condition[] {
  return Object.entries(kinds).flatMap(([field, kind]) => {
    const condition = kind(field, values[field])
    return condition === undefined ? [] : [condition]
  })
}

/** Returns the text of a filter, without NUL, which PostgreSQL refuses. */
export function toFilterText(value: unknown): string {
  return typeof value === 'string' ? value.trim().replaceAll('\0', '').slice(0, MAX_LENGTH).toWellFormed() : ''
}

function toMoment(value: unknown): Date | undefined {
  const moment = new Date(typeof value === 'string' ? value : Number.NaN)
  const year = moment.getUTCFullYear()
  return year >= 1 && year <= 9_999 ? moment : undefined
}

/** Escapes a text for PostgreSQL's `LIKE`. */
function escaped(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&')
}

/** Returns the first text after all with this beginning, by code points, as UTF-8 sorts; undefined for none. */
function afterAllThatBeginWith(text: string): string | undefined {
  const characters = [...text]
  while (characters.length > 0) {
    const last = characters.pop()?.codePointAt(0) ?? MAX_CODE_POINT
    // Skips surrogates, which no text contains as code points.
    if (last < MAX_CODE_POINT) return characters.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)
  }
  return undefined
}
