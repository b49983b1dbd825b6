/** The size of a new buffer, in bytes; also of one that is used again after it has held many rows. */
const INITIAL_BYTES = 65_536
/** The most memory that an empty buffer keeps. */
const MAX_IDLE_BYTES = 8 * 1_048_576
/** The longest that UTF-8 makes of one unit of UTF-16. */
const MAX_BYTES_PER_UNIT = 3

/**
 * A queue of texts that wait for some time. They are kept as bytes outside of the heap: as strings, which live too long
 * for the young generation, thousands of them would be copied by each garbage collection.
 */
export class RowBuffer {
  #bytes = Buffer.alloc(0)
  /** Where each row ends. */
  #ends: number[] = []

  get length(): number {
    return this.#ends.length
  }

  /** The first row, which stays. */
  get first(): string | undefined {
    const [end] = this.#ends
    return end === undefined ? undefined : this.#bytes.toString('utf8', 0, end)
  }

  push(row: string): void {
    const start = this.#ends.at(-1) ?? 0
    const needed = start + row.length * MAX_BYTES_PER_UNIT
    if (needed > this.#bytes.length) this.#grow(needed)
    this.#ends.push(start + this.#bytes.write(row, start))
  }

  /** Returns the first rows, which stay. */
  peek(count: number): string[] {
    let start = 0
    return this.#ends.slice(0, count).map((end) => {
      const row = this.#bytes.toString('utf8', start, end)
      start = end
      return row
    })
  }

  /** Removes the first rows. */
  drop(count: number): void {
    const dropped = this.#ends[Math.min(count, this.#ends.length) - 1] ?? 0
    this.#bytes.copyWithin(0, dropped, this.#ends.at(-1))
    this.#ends = this.#ends.slice(count).map((end) => end - dropped)
    if (this.#ends.length === 0 && this.#bytes.length > MAX_IDLE_BYTES) this.#bytes = Buffer.alloc(0)
  }

  #grow(needed: number): void {
    const bytes = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length, INITIAL_BYTES))
    this.#bytes.copy(bytes)
    this.#bytes = bytes
  }
}
