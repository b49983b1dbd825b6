/** Optimistic locking: the `ETag` of a row is a hash of its fields. */
import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { ChangedError, InvalidInputError } from './problems.js'

const TAG_LENGTH = 22
const TAGS = /^(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*$/

export function etagFor(row: object): string {
  const hash = createHash('sha256').update(JSON.stringify(row)).digest('base64url')
  return `"${hash.slice(0, TAG_LENGTH)}"`
}

/**
 * Compares `If-Match` with a row; without the header every row matches.
 *
 * @param row undefined where there is none, which never matches
 * @returns whether there is such a header
 * @throws ChangedError when the row is another one, InvalidInputError for a header that is no tag
 */
export function requireMatch({ headers }: FastifyRequest, row: object | undefined): boolean {
  const given = headers['if-match']?.trim()
  if (given === undefined) return false
  if (given !== '*' && !TAGS.test(given)) {
    throw new InvalidInputError([
      { in: 'header', field: 'if-match', detail: 'is no ETag: send it as it was answered, with its quotes, or *' },
    ])
  }
  const tags = given.split(',').map((tag) => tag.trim())
  if (row === undefined || !(given === '*' || tags.includes(etagFor(row)))) throw new ChangedError()
  return true
}
