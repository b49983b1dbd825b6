/**
 * Iterates over a map round after round, in the order of insertion. It keeps its iterator between uses: a new one would
 * step over every deleted entry, one by one.
 */
export class CyclicIterator<Key, Value> {
  readonly #map: ReadonlyMap<Key, Value>
  #entries: Iterator<[Key, Value]>

  constructor(map: ReadonlyMap<Key, Value>) {
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
}
