import { StringDecoder } from 'node:string_decoder'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'

/** Bytes that are decoded at once. */
const PIECE = 65_536

/** Decodes the bytes of a body, and lets other work of the process run in between: a document to import has megabytes. */
export async function decodeBody(body: Buffer): Promise<string> {
  const slices = new CooperativeYield()
  const decoder = new StringDecoder('utf8')
  let text = ''
  for (let start = 0; start < body.length; start += PIECE) {
    text += decoder.write(body.subarray(start, start + PIECE))
    if (slices.over()) await slices.pause()
  }
  return text + decoder.end()
}
