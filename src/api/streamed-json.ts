/** Streams long answers: one of many thousand rows neither stops the server, nor is ever in its memory as a whole. */
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply } from 'fastify'

/** Rows per chunk: a fraction of a millisecond of work. */
const ROWS = 100
/** How long a reader may leave unread what is sent, in milliseconds: other reports wait for it. */
const UNREAD_MS = 30_000

/** Rows of a list, or of several: a list is behind those before. */
type Slice = Readonly<Record<string, readonly unknown[]>>
type Head = Readonly<Record<string, unknown>>

/** Returns a stream of an object with short fields, and then a list. */
export function streamRows(reply: FastifyReply, head: Head, list: string, rows: readonly unknown[]): Readable {
  setJsonType(reply)
  return Readable.from(toJson(head, cut(list, rows)), { objectMode: false })
}

/**
 * Returns a stream of an object with short fields, and then lists, whose slices can be read only for a while. A reader
 * who leaves it unread for half a minute loses it.
 *
 * @param lend passes on the slices, and resolves when they were read
 * @throws what `lend` throws before the first slice
 */
export function streamWhile(
  reply: FastifyReply,
  head: Head,
  lend: (receive: (slices: AsyncIterable<Slice>) => Promise<void>) => Promise<void>,
): Promise<Readable> {
  const stream = new PassThrough()
  // What fails before the answer is sent fails it then.
  stream.on('error', () => undefined)
  return new Promise((resolve, reject) => {
    async function receive(slices: AsyncIterable<Slice>): Promise<void> {
      const texts = toJson(head, slices)
      const first = await texts.next()
      setJsonType(reply)
      resolve(stream)
      const unread = setTimeout(() => stream.destroy(new Error('The reader of a list does not go on')), UNREAD_MS)
      async function* watched(): AsyncGenerator<string> {
        if (!first.done) yield first.value
        for await (const text of texts) {
          unread.refresh()
          yield text
        }
      }
      await pipeline(watched, stream).finally(() => clearTimeout(unread))
    }
    lend(receive).catch((error: Error) => {
      reject(error)
      stream.destroy(error)
    })
  })
}

/** Declares that the text to be sent is JSON. */
export function setJsonType(reply: FastifyReply): void {
  reply.type('application/json; charset=utf-8')
}

function* cut(list: string, rows: readonly unknown[]): Generator<Slice> {
  for (let start = 0; start === 0 || start < rows.length; start += ROWS) {
    yield { [list]: rows.slice(start, start + ROWS) }
  }
}

/** Yields the text of each slice, the first with the head. */
async function* toJson(head: Head, slices: Iterable<Slice> | AsyncIterable<Slice>): AsyncGenerator<string> {
  let text = JSON.stringify(head).slice(0, -1)
  let isEmpty = Object.keys(head).length === 0
  let list: string | undefined
  let separator = ''
  for await (const slice of slices) {
    for (const [name, rows] of Object.entries(slice)) {
      if (name !== list) {
        text += `${list === undefined ? '' : ']'}${isEmpty ? '' : ','}${JSON.stringify(name)}:[`
        list = name
        isEmpty = false
        separator = ''
      }
      if (rows.length === 0) continue
      text += separator + JSON.stringify(rows).slice(1, -1)
      separator = ','
    }
    yield text
    text = ''
  }
  yield `${text}${list === undefined ? '' : ']'}}`
}
