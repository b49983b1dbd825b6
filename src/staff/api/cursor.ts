/** Cursors of lists: where a page ended, as an opaque text. */
import { createHash } from 'node:crypto'
import Type, { type Static, type TSchema } from 'typebox'
import { Check } from 'typebox/value'
import { InvalidInputError } from './problems.js'

/** A whole number of a position: anybody can make up a cursor, and PostgreSQL refuses larger ones. */
export const PositionNumber = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })
/** A moment of a position, in milliseconds, that both PostgreSQL and JavaScript have. */
export const PositionMoment = Type.Integer({ minimum: -210_000_000_000_000, maximum: 8_640_000_000_000_000 })
/** A text of a position, without NUL, which PostgreSQL refuses. */
export const PositionText = Type.String({ pattern: '^[^\\u0000]*$' })

const CHECKSUM_LENGTH = 11
const CURSOR = /^([\w-]{1,1000})\.([\w-]{11})$/

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
export function parseCursor<Schema extends TSchema>(list: string, schema: Schema, cursor: string): Static<Schema> {
  const [, text = '', checksum] = CURSOR.exec(cursor) ?? []
  const position: unknown = checksum === checksumFor(list, text) ? parsed(text) : undefined
  if (position !== undefined && Check(schema, position)) return position
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
