/** Turns the filters of a list into Prisma's conditions: what a filter means is the resource's choice. */

/** A condition as Prisma takes it. */
export type Condition = Readonly<Record<string, unknown>>

/** @returns undefined for a value that says nothing */
export type FilterKind = (field: string, value: unknown) => Condition | undefined

/** Filters of a list, by their names, as the query has them. */
export type FilterValues = Readonly<Record<string, unknown>>

export type Provider = 'sqlite' | 'postgresql'

/** Longer than what anybody looks for. */
const MAX_LENGTH = 500
const MAX_CODE_POINT = 0x10ffff

export const isExactly: FilterKind = (field, value) => {
  const text = textOf(value)
  return text === '' ? undefined : { [field]: text }
}

/**
 * What begins with a text as it is, its case included. `LIKE` of SQLite tells no cases apart, and Prisma gives it no
 * escape character, but texts are compared by their bytes there; those of PostgreSQL by whatever its locale has.
 */
export function beginsWith(provider: Provider): FilterKind {
  return (field, value) => {
    const text = textOf(value)
    if (text === '') return undefined
    if (provider === 'postgresql') return { [field]: { startsWith: escaped(text) } }
    const end = afterAllThatBeginWith(text)
    // By exclusion: for a range, SQLite would take an index of the field, and sort everything that it finds there.
    return { NOT: [{ [field]: { lt: text } }, ...(end === undefined ? [] : [{ [field]: { gte: end } }])] }
  }
}

export const isTrue: FilterKind = (field, value) => {
  return value === 'true' || value === 'false' ? { [field]: value === 'true' } : undefined
}

/** A `{ from, to }` of moments. */
export const isWithin: FilterKind = (field, value) => {
  if (typeof value !== 'object' || value === null) return undefined
  const from = momentOf(Reflect.get(value, 'from'))
  const to = momentOf(Reflect.get(value, 'to'))
  if (from === undefined && to === undefined) return undefined
  return { [field]: { ...(from && { gte: from }), ...(to && { lte: to }) } }
}

/** What is looked for in a list. */
export interface Search {
  readonly condition: Condition
  /** Where the condition finds more than what is looked for: which rows are meant. */
  readonly isMeant: ((row: Readonly<Record<string, unknown>>) => boolean) | undefined
}

/**
 * A text as it is in one of several fields, whatever its case. `LIKE` of SQLite has no escape character with Prisma, and
 * knows the cases of no others than ASCII's: the condition leaves such characters open.
 *
 * @returns undefined for a value that says nothing
 */
export function searchIn(fields: readonly string[], value: unknown, provider: Provider): Search | undefined {
  const text = textOf(value)
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

/** @param kinds the filters there are; others say nothing */
export function conditionsOf(kinds: Readonly<Record<string, FilterKind>>, values: FilterValues): Condition[] {
  return Object.entries(kinds).flatMap(([field, kind]) => {
    const condition = kind(field, values[field])
    return condition === undefined ? [] : [condition]
  })
}

/** Of a NUL, PostgreSQL does not even ask. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value.trim().replaceAll('\0', '').slice(0, MAX_LENGTH).toWellFormed() : ''
}

function momentOf(value: unknown): Date | undefined {
  const moment = new Date(typeof value === 'string' ? value : Number.NaN)
  const year = moment.getUTCFullYear()
  return year >= 1 && year <= 9_999 ? moment : undefined
}

/** For `LIKE` of PostgreSQL. */
function escaped(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&')
}

/** By code points, as UTF-8 sorts; undefined where there is nothing after them. */
function afterAllThatBeginWith(text: string): string | undefined {
  const characters = [...text]
  while (characters.length > 0) {
    const last = characters.pop()?.codePointAt(0) ?? MAX_CODE_POINT
    // No text has the code points of halves of UTF-16.
    if (last < MAX_CODE_POINT) return characters.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)
  }
  return undefined
}
