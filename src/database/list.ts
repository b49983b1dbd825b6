/** Lists of rows, read page by page. */
import type { Dialect, Query, SqlValue } from './dialect.js'

/** The values of a statement, in the order of its `$1`, `$2`, …. */
export class Parameters {
  readonly values: SqlValue[] = []

  /** Adds a value and returns its placeholder. */
  add(value: SqlValue): string {
    return `$${this.values.push(value)}`
  }
}

/** An expression that rows are ordered by. */
export interface OrderTerm {
  readonly sql: string
  /** A moment is in milliseconds. */
  readonly kind: 'whole' | 'moment' | 'text'
  readonly isDescending?: boolean
  /** Whether rows may lack a value: they are last. Only the first of two terms may. */
  readonly isNullable?: boolean
}

/** The order of a list: of two terms, the second one is unique among rows that are alike in the first one. */
export type Order = readonly [OrderTerm, OrderTerm?]

/** The values of the terms in a row: its position in the list, whatever is inserted before or behind it. */
export type Position = readonly SqlValue[]

/** The beginning of a page: after or before a row. */
export interface PageStart {
  readonly side: 'after' | 'before'
  readonly position: Position
}

export interface List<Row> {
  readonly order: Order
  position(row: Row): Position
  /** Returns the conditions of the rows. */
  where(parameters: Parameters): readonly string[]
  /** @param rest the statement from its WHERE on */
  select(rest: string, parameters: Parameters): Promise<readonly Row[]>
}

export interface Page<Row> {
  /** In the order of the list. */
  readonly rows: Row[]
  readonly hasBefore: boolean
  readonly hasAfter: boolean
}

/** Reads a page of a list. */
export async function readPage<Row>(
  dialect: Dialect,
  list: List<Row>,
  { from, limit }: { readonly from?: PageStart | undefined; readonly limit: number },
): Promise<Page<Row>> {
  const found = await readRows(dialect, list, from, limit + 1)
  const isBackward = from?.side === 'before'
  const rows = found.slice(0, limit)
  const hasMore = found.length > limit
  return {
    rows: isBackward ? rows.reverse() : rows,
    hasBefore: isBackward ? hasMore : from !== undefined,
    hasAfter: isBackward || hasMore,
  }
}

/** Yields all rows of a list behind a position, a statement's at a time. */
export async function* pages<Row>(
  dialect: Dialect,
  list: List<Row>,
  limit: number,
  from?: PageStart,
): AsyncGenerator<Row[], void, undefined> {
  for (let start = from; ; ) {
    const rows = await readRows(dialect, list, start, limit)
    yield rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < limit) return
    start = { side: 'after', position: list.position(last) }
  }
}

/** Reads rows in the direction from a position. */
async function readRows<Row>(
  dialect: Dialect,
  { order, where, select }: List<Row>,
  from: PageStart | undefined,
  limit: number,
): Promise<Row[]> {
  const isBackward = from?.side === 'before'
  const rows: Row[] = []
  for (const { terms, isNull, position } of partsOf(order, from)) {
    const parameters = new Parameters()
    const conditions = [
      ...where(parameters),
      ...(isNull === undefined ? [] : [`${order[0].sql} IS ${isNull ? '' : 'NOT '}NULL`]),
      ...(position === undefined ? [] : [beyond(dialect, terms, position, isBackward, parameters)]),
    ]
    const filter = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')} `
    const most = parameters.add(limit - rows.length)
    rows.push(...(await select(`${filter}${orderBy(terms, isBackward)} LIMIT ${most}`, parameters)))
    if (rows.length === limit) break
  }
  return rows
}

/**
 * Returns the list of a table's rows in the order of their ids.
 *
 * @param select the statement up to its WHERE
 */
export function listById<Row extends { readonly id: number }>(
  query: Query,
  select: string,
  where: List<Row>['where'] = () => [],
): List<Row> {
  return {
    order: [{ sql: 'id', kind: 'whole' }],
    position: ({ id }) => [id],
    where,
    select: (rest, { values }) => query<Row>(`${select} ${rest}`, values),
  }
}

/**
 * Reads rows for each element of a list, which `jsonField` reads: one statement looks all of them up in an index.
 *
 * @param columns of the rows, which are tuples
 */
export async function readForEach<Row extends readonly unknown[]>(
  { query, dialect }: { readonly query: Query; readonly dialect: Dialect },
  elements: readonly (readonly unknown[])[],
  columns: string,
  select: (parameters: Parameters) => string,
): Promise<Row[]> {
  const parameters = new Parameters()
  const listed = dialect.jsonRows(parameters.add(JSON.stringify(elements)))
  const rows = await query<{ found: string | null }>(
    `SELECT (SELECT ${dialect.rowsAsJson(columns)} FROM (${select(parameters)}) AS found) AS found FROM ${listed}`,
    parameters.values,
  )
  return rows.flatMap(({ found }): Row[] => (found === null ? [] : JSON.parse(found)))
}

/** A part of a list, in the order of an index, from a position on where the page begins in it. */
interface ListPart {
  readonly terms: Order
  /** Whether the rows lack the first value; undefined where no row does. */
  readonly isNull?: boolean
  readonly position?: Position | undefined
}

/** Returns the parts that a page may have rows of, in the order in which they are read. */
function partsOf(order: Order, from: PageStart | undefined): ListPart[] {
  const [first, second] = order
  const position = from?.position
  if (!first.isNullable || second === undefined) return [{ terms: order, position }]
  const filled: ListPart = { terms: order, isNull: false }
  const empty: ListPart = { terms: [second], isNull: true }
  if (position === undefined) return [filled, empty]
  if (position[0] === null) {
    const begun = { ...empty, position: position.slice(1) }
    return from?.side === 'before' ? [begun, filled] : [begun]
  }
  const begun = { ...filled, position }
  return from?.side === 'before' ? [begun] : [begun, empty]
}

/** Returns the order of a list, or the reverse. */
export function orderBy(order: readonly (OrderTerm | undefined)[], isBackward = false): string {
  const terms = order.filter((term) => term !== undefined)
  const sql = terms.map((term) => `${term.sql}${Boolean(term.isDescending) === isBackward ? '' : ' DESC'}`)
  return `ORDER BY ${sql.join(', ')}`
}

/** Returns the condition that a row is beyond a position; the first comparison is one that an index has. */
export function beyond(
  dialect: Dialect,
  [first, second]: Order,
  [value = null, other = null]: Position,
  isBackward: boolean,
  parameters: Parameters,
): string {
  const sign = ({ isDescending = false }: OrderTerm) => (isDescending === isBackward ? '>' : '<')
  const placeholder = toTerm(dialect, first, parameters.add(value))
  if (second === undefined) return `${first.sql} ${sign(first)} ${placeholder}`
  const next = toTerm(dialect, second, parameters.add(other))
  return `${first.sql} ${sign(first)}= ${placeholder}
    AND (${first.sql} ${sign(first)} ${placeholder} OR ${second.sql} ${sign(second)} ${next})`
}

function toTerm({ whole, fromMs }: Dialect, { kind }: OrderTerm, placeholder: string): string {
  if (kind === 'text') return placeholder
  return kind === 'whole' ? whole(placeholder) : fromMs(whole(placeholder))
}

/** The moments that both PostgreSQL and JavaScript have, in milliseconds. */
const MOMENTS = { from: -210_000_000_000_000, to: 8_640_000_000_000_000 }

/** Returns whether values, which anybody may have made up, are a position that statements can have. */
export function isPosition(order: Order, values: unknown): values is Position {
  return (
    Array.isArray(values) &&
    values.length === order.length &&
    order.every((term, index) => isValue(term, values[index]))
  )
}

function isValue(term: OrderTerm | undefined, value: unknown): boolean {
  if (value === null) return term?.isNullable === true
  if (term?.kind === 'text') return typeof value === 'string' && !value.includes('\0')
  const isMoment = term?.kind === 'moment'
  return Number.isSafeInteger(value) && (!isMoment || (Number(value) >= MOMENTS.from && Number(value) <= MOMENTS.to))
}
