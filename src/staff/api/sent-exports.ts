/** Sends long documents, which were read before: neither a transaction nor a report waits for a slow reader. */
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import { TooManyExportsError } from './problems.js'

/** A reader of a hundred thousand overrides needs some megabits a second. */
const DEADLINE_MS = 2 * 60_000
/** Exports of one actor at once. Each is some megabytes in memory, since a list of rules shrinks to a tenth or less. */
const MAX_PER_ACTOR = 4

const compress = promisify<string, Buffer>(deflateRaw)
const decompress = promisify<Buffer, Buffer>(inflateRaw)

/** The exports that are being read or sent. */
export class SentExports {
  readonly #counts = new Map<string, number>()

  /**
   * Reads a document whole, and returns a stream of it, which ends after two minutes at the latest.
   *
   * @param read reads the document by the function it gets, which takes the document's texts
   * @param isWanted returns false where the reader is gone, and reading can end
   * @throws TooManyExportsError when the actor's other exports have not ended
   */
  async send(
    actor: string,
    read: (receive: (texts: AsyncIterable<string>) => Promise<Buffer[]>) => Promise<Buffer[]>,
    isWanted: () => boolean,
  ): Promise<Readable> {
    const count = this.#counts.get(actor) ?? 0
    if (count >= MAX_PER_ACTOR) throw new TooManyExportsError()
    this.#counts.set(actor, count + 1)
    try {
      const texts = await read((texts) => compressEach(texts, isWanted))
      const stream = Readable.from(takeEach(texts), { objectMode: false })
      const deadline = setTimeout(() => stream.destroy(new Error('An export was not read in time')), DEADLINE_MS)
      // The stream may end before the answer listens.
      stream.on('error', () => undefined)
      stream.once('close', () => {
        clearTimeout(deadline)
        this.#end(actor)
      })
      if (!isWanted()) stream.destroy()
      return stream
    } catch (error) {
      this.#end(actor)
      throw error
    }
  }

  #end(actor: string): void {
    const count = this.#counts.get(actor) ?? 0
    if (count > 1) this.#counts.set(actor, count - 1)
    else this.#counts.delete(actor)
  }
}

async function compressEach(texts: AsyncIterable<string>, isWanted: () => boolean): Promise<Buffer[]> {
  const compressed: Buffer[] = []
  for await (const text of texts) {
    if (!isWanted()) break
    compressed.push(await compress(text))
  }
  return compressed
}

/** Yields each text, and forgets it. */
async function* takeEach(texts: Buffer[]): AsyncGenerator<Buffer> {
  for (let text = texts.shift(); text !== undefined; text = texts.shift()) yield await decompress(text)
}
