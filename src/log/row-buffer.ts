/** Some thousand rows of the usual length. */
const CHUNK_BYTES = 1_048_576
/** The longest that UTF-8 makes of one unit of UTF-16. */
const MAX_BYTES_PER_UNIT = 3

interface Chunk {
  readonly bytes: Buffer
  /** Where each row ends. */
  readonly ends: number[]
  /** The number of rows that were dropped; they come first. */
  dropped: number
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

  /** The first row, which stays. */
  get first(): string | undefined {
    return this.peek(1)[0]
  }

  push(row: string): void {
    const mostBytes = row.length * MAX_BYTES_PER_UNIT
    let chunk = this.#chunks.at(-1)
    let start = chunk?.ends.at(-1) ?? 0
    if (chunk === undefined || start + mostBytes > chunk.bytes.length) {
      chunk = { bytes: Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, mostBytes)), ends: [], dropped: 0 }
      this.#chunks.push(chunk)
      start = 0
    }
    chunk.ends.push(start + chunk.bytes.write(row, start))
    this.#length++
  }

  /** Returns the first rows, which stay. */
  peek(count: number): string[] {
    const rows: string[] = []
    for (const { bytes, ends, dropped } of this.#chunks) {
      const missing = count - rows.length
      if (missing <= 0) break
      let start = ends[dropped - 1] ?? 0
      for (const end of ends.slice(dropped, dropped + missing)) {
        rows.push(bytes.toString('utf8', start, end))
        start = end
      }
    }
    return rows
  }

  /** Removes the first rows. */
  drop(count: number): void {
    for (let left = Math.min(count, this.#length); left > 0; ) {
      const [chunk] = this.#chunks
      if (chunk === undefined) return
      const dropped = Math.min(left, chunk.ends.length - chunk.dropped)
      chunk.dropped += dropped
      this.#length -= dropped
      left -= dropped
      if (chunk.dropped === chunk.ends.length) this.#forgetFirst(chunk)
    }
  }

  #forgetFirst(chunk: Chunk): void {
    if (this.#chunks.length > 1) {
      this.#chunks.shift()
      return
    }
    // Few events need no new memory.
    chunk.ends.length = 0
    chunk.dropped = 0
  }
}
