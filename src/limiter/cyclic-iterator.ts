/**
 * Iterates over a map round after round, in the order of insertion. The iterator is kept between uses: a new one would
 * step over every deleted entry, one by one.
 */
export class CyclicIterator<Key, Value> {
  readonly #map: Map<Key, Value>
  #entries: Iterator<[Key, Value]>

  constructor(map: Map<Key, Value>) {
    this.#map = map
    this.#entries = map.entries()
  }

  /** Returns the next entry; undefined when the map is empty. */
  step(): [Key, Value] | undefined {
    let next = this.#entries.next()
    if (next.done) {
      this.#entries = this.#map.entries()
      next = this.#entries.next()
    }
    return next.done ? undefined : next.value
  }

  /** Inspects the next `count` entries, and deletes those that are over. */
  sweep(count: number, isOver: (value: Value) => boolean): void {
    for (let left = count; left > 0; left--) {
      const [key, value] = this.step() ?? []
      if (key !== undefined && value !== undefined && isOver(value)) this.#map.delete(key)
    }
  }
}
