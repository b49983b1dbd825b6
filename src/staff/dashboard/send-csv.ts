import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/** Streams lines of CSV as a file of a name. */
export function sendCsv(
  reply: FastifyReply,
  name: string,
  rows: Iterable<string> | AsyncIterable<string>,
): FastifyReply {
  return reply
    .type('text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(Readable.from(withByteOrderMark(rows)))
}

/** Spreadsheets take a file without the mark for one in the encoding of the machine. */
async function* withByteOrderMark(rows: Iterable<string> | AsyncIterable<string>) {
  yield '\ufeff'
  yield* rows
}
