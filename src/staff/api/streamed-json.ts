/** Streams long answers in slices, so that one of many thousand rows does not stop the server. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'

/** Rows per chunk: a fraction of a millisecond of work. */
const ROWS = 100

/** Rows of a list, or of several: a list is behind those before. */
type Slice = Readonly<Record<string, readonly unknown[]>>
type Head = Readonly<Record<string, unknown>>

/** Returns a stream of an object with short fields, and then a list. */
export function streamRows(reply: FastifyReply, head: Head, list: string, rows: readonly unknown[]): Readable {
  setJsonType(reply)
  return Readable.from(toJson(head, cut(list, rows)), { objectMode: false })
}

/** Returns a stream of an object with short fields, behind objects that have short fields and lists. */
export function streamLists(
  reply: FastifyReply,
  objects: Readonly<Record<string, { readonly head: Head; readonly lists: Slice }>>,
  head: Head,
): Readable {
  setJsonType(reply)
  async function* texts() {
    let separator = '{'
    for (const [name, { head, lists }] of Object.entries(objects)) {
      yield `${separator}${JSON.stringify(name)}:`
      yield* toJson(head, cutEach(lists))
      separator = ','
    }
    yield `${separator}${JSON.stringify(head).slice(1)}`
  }
  return Readable.from(texts(), { objectMode: false })
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

function* cutEach(lists: Slice): Generator<Slice> {
  for (const [list, rows] of Object.entries(lists)) yield* cut(list, rows)
}

/** Yields the text of each slice, the first with the head. */
export async function* toJson(head: Head, slices: Iterable<Slice> | AsyncIterable<Slice>): AsyncGenerator<string> {
  let text = JSON.stringify(head).slice(0, -1)
  let isEmpty = Object.keys(head).length === 0
  let list: string | undefined
  let separator = ''
  const pauses = new CooperativeYield()
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
    if (pauses.over()) await pauses.pause()
  }
  yield `${text}${list === undefined ? '' : ']'}}`
}
