/** Sends long documents, which were read before: neither a transaction nor a report waits for a slow reader. */
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'

/** A reader of a hundred thousand overrides needs some megabits a second. */
const DEADLINE_MS = 2 * 60_000
/** The most exports that are in memory: some megabytes each, since a list of rules shrinks to a tenth or less. */
const MAX_SENT = 4

const compress = promisify<string, Buffer>(deflateRaw)
const decompress = promisify<Buffer, Buffer>(inflateRaw)

/** The exports that are being sent. */
export class SentExports {
  /** Who reads each; the oldest first. */
  readonly #readers = new Map<Readable, string>()

  /**
   * Reads a document.
   *
   * @param isWanted returns false where its reader is gone, and reading can end
   */
  async read(texts: AsyncIterable<string>, isWanted: () => boolean): Promise<Buffer[]> {
    const read: Buffer[] = []
    for await (const text of texts) {
      if (!isWanted()) break
      read.push(await compress(text))
    }
    return read
  }

  /**
   * Returns a stream of a document, which ends after two minutes at the latest. Where too many are sent already, the oldest
   * one ends of the actor who reads most of them: so nobody keeps others from exporting.
   */
  send(actor: string, texts: Buffer[]): Readable {
    const stream = Readable.from(takeEach(texts), { objectMode: false })
    const deadline = setTimeout(() => stream.destroy(new Error('An export was not read in time')), DEADLINE_MS)
    // It may end before the answer listens.
    stream.on('error', () => undefined)
    stream.once('close', () => {
      clearTimeout(deadline)
      this.#readers.delete(stream)
    })
    this.#readers.set(stream, actor)
    if (this.#readers.size > MAX_SENT) this.#endOne()
    return stream
  }

  #endOne(): void {
    const counts = new Map<string, number>()
    for (const actor of this.#readers.values()) counts.set(actor, (counts.get(actor) ?? 0) + 1)
    const most = Math.max(...counts.values())
    const ended = [...this.#readers].find(([, actor]) => counts.get(actor) === most)
    ended?.[0].destroy(new Error('Too many exports are read at once'))
  }
}

/** Yields each text, and forgets it. */
async function* takeEach(texts: Buffer[]): AsyncGenerator<Buffer> {
  for (let text = texts.shift(); text !== undefined; text = texts.shift()) yield await decompress(text)
}
