/** The most rows that are taken at once. */
export const MAX_ROWS = 5_000
/** The size of a chunk: some thousand rows of the usual length. */
const CHUNK_BYTES = 1_048_576
/** The longest that UTF-8 makes of one unit of UTF-16. */
const MAX_BYTES_PER_UNIT = 3

interface Chunk {
  readonly bytes: Buffer
  /** The end of each row, in bytes. */
  readonly ends: number[]
  firstMs: number
}

/**
 * A queue of texts that wait for some time. They are kept as bytes outside of the heap: thousands of strings that are
 * dropped half a second later would be copied by the garbage collection, and then fill the old generation.
 */
export class RowBuffer {
  readonly #chunks: Chunk[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  get firstMs(): number | undefined {
    return this.#length === 0 ? undefined : this.#chunks[0]?.firstMs
  }

  push(row: string, atMs: number): void {
    const mostBytes = row.length * MAX_BYTES_PER_UNIT
    let chunk = this.#chunks.at(-1)
    let start = chunk?.ends.at(-1) ?? 0
    if (chunk === undefined || chunk.ends.length === MAX_ROWS || start + mostBytes > chunk.bytes.length) {
      chunk = { bytes: Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, mostBytes)), ends: [], firstMs: atMs }
      this.#chunks.push(chunk)
      start = 0
    }
    if (start === 0) chunk.firstMs = atMs
    chunk.ends.push(start + chunk.bytes.write(row, start))
    this.#length++
  }

  /** Removes the first rows, some thousand at most, and returns them with the time of the first. */
  take(): { readonly rows: string[]; readonly firstMs: number } | undefined {
    const [chunk] = this.#chunks
    if (chunk === undefined || this.#length === 0) return undefined
    const { bytes, ends, firstMs } = chunk
    const rows = ends.map((end, index) => bytes.toString('utf8', ends[index - 1] ?? 0, end))
    this.#length -= rows.length
    // Few events need no new memory.
    if (this.#chunks.length === 1) ends.length = 0
    else this.#chunks.shift()
    return { rows, firstMs }
  }
}
