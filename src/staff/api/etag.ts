/** Optimistic locking: the `ETag` of a row is a hash of its fields. */
import type { FastifyRequest } from 'fastify'
import Type from 'typebox'
import { entryVersion } from '../../rules/entry-version.js'
import { ChangedError } from './problems.js'

const TAGS = /^(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*$/

/** The headers of requests that write a row. */
export const IF_MATCH = Type.Object({
  'if-match': Type.Optional(
    Type.Refine(
      Type.String({ description: 'The ETag of the entry: nothing is written if the entry was changed since.' }),
      (text) => text === '*' || TAGS.test(text),
      () => 'is not a valid ETag: send the ETag as you received it, with its quotes, or *',
    ),
  ),
})
/** The documented headers of answers with a row. */
export const ETAG = { ETag: { type: 'string', description: 'For If-Match.' } } as const

export function etagFor(row: object): string {
  return `"${entryVersion(row)}"`
}

/**
 * Compares `If-Match` with a row; without the header every row matches.
 *
 * @param row undefined where there is none, which never matches
 * @returns whether there is such a header
 * @throws ChangedError when the row is another one
 */
export function requireMatch({ headers }: FastifyRequest, row: object | undefined): boolean {
  const wanted = headers['if-match']
  if (wanted === undefined) return false
  const tags = wanted.split(',').map((tag) => tag.trim())
  if (row === undefined || !(wanted === '*' || tags.includes(etagFor(row)))) throw new ChangedError()
  return true
}
