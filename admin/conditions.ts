/** Turns the filters of a list into Prisma's conditions: what a filter means is the resource's choice. */

/** A condition as Prisma takes it. */
export type Condition = Readonly<Record<string, unknown>>

/** @returns undefined for a value that says nothing */
export type FilterKind = (field: string, value: unknown) => Condition | undefined

/** Filters of a list, by their names, as the query has them. */
export type FilterValues = Readonly<Record<string, unknown>>

/** Longer than what anybody looks for. */
const MAX_LENGTH = 500

export const isExactly: FilterKind = (field, value) => {
  const text = textOf(value)
  return text === '' ? undefined : { [field]: text }
}

/** Where an index is, it can be used. */
export const beginsWith: FilterKind = (field, value) => {
  const text = textOf(value)
  return text === '' ? undefined : { [field]: { startsWith: text } }
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

/** A text in one of several fields, whatever its case. `LIKE` of SQLite tells none apart; PostgreSQL is asked not to. */
export function searchIn(fields: readonly string[], provider: 'sqlite' | 'postgresql'): FilterKind {
  const mode = provider === 'postgresql' ? { mode: 'insensitive' } : {}
  return (_field, value) => {
    const text = textOf(value)
    return text === '' ? undefined : { OR: fields.map((field) => ({ [field]: { contains: text, ...mode } })) }
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
