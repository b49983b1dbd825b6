import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { lastParameter } from '../shell/request-query.js'

const BYTE_ORDER_MARK = '\ufeff'

/** Streams lines of CSV as a file of a name, which begins with a byte order mark where `bom` of the address is 1. */
export function sendCsv(
  request: FastifyRequest,
  reply: FastifyReply,
  name: string,
  rows: Iterable<string> | AsyncIterable<string>,
): FastifyReply {
  const isMarked = lastParameter(request, 'bom') === '1'
  return reply
    .type('text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(Readable.from(isMarked ? startingWith(BYTE_ORDER_MARK, rows) : rows))
}

/** Yields a first text, and then others. */
export async function* startingWith(first: string, others: Iterable<string> | AsyncIterable<string>) {
  yield first
  yield* others
}
