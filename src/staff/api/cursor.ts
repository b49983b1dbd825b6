/** Pages of lists, which begin where a cursor says: where the page before ended, as an opaque text. */
import { createHash } from 'node:crypto'
import type { Dialect } from '../../database/dialect.js'
import { isPosition, type List, type Order, type Position, readPage } from '../../database/list.js'
import { DEFAULT_LIMIT } from './entry-schemas.js'
import { InvalidInputError } from './problems.js'

const CHECKSUM_LENGTH = 11
const CURSOR = /^([\w-]{1,1000})\.([\w-]{11})$/

/** A page as the API answers it. */
export interface CursorPage<Row> {
  readonly items: readonly Row[]
  /** The cursor of the next page; null at the end. */
  readonly nextCursor: string | null
}

export interface CursorOptions {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

/** Reads a page of a list. @param name as of `toCursor` */
export async function readCursorPage<Row>(
  dialect: Dialect,
  name: string,
  list: List<Row>,
  { limit = DEFAULT_LIMIT, cursor }: CursorOptions,
): Promise<CursorPage<Row>> {
  const position = cursor === undefined ? undefined : parseCursor(name, list.order, cursor)
  const from = position && ({ side: 'after', position } as const)
  const { rows, hasAfter } = await readPage(dialect, list, { from, limit })
  const last = rows.at(-1)
  return { items: rows, nextCursor: hasAfter && last !== undefined ? toCursor(name, list.position(last)) : null }
}

/**
 * Spells a cursor.
 *
 * @param list the name of the list, with its filters: a cursor of another list, or of other filters, is refused
 */
export function toCursor(list: string, position: readonly unknown[]): string {
  const text = Buffer.from(JSON.stringify(position)).toString('base64url')
  return `${text}.${checksumFor(list, text)}`
}

/**
 * Reads a cursor of this list.
 *
 * @throws InvalidInputError for another text
 */
export function parseCursor(list: string, order: Order, cursor: string): Position {
  const [, text = '', checksum] = CURSOR.exec(cursor) ?? []
  const position: unknown = checksum === checksumFor(list, text) ? parsed(text) : undefined
  if (isPosition(order, position)) return position
  throw new InvalidInputError([
    {
      in: 'query',
      field: 'cursor',
      detail:
        'is not a valid cursor of this list: give the nextCursor of the page before, with the same filters, or leave it out',
    },
  ])
}

function checksumFor(list: string, text: string): string {
  return createHash('sha256').update(`${list}\n${text}`).digest('base64url').slice(0, CHECKSUM_LENGTH)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return undefined
  }
}
