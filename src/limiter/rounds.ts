/**
 * Goes through a map round after round, in the order of insertion. It is kept from one use to the next: a fresh iterator
 * would step over every entry deleted before, one by one.
 */
export class Rounds<Key, Value> {
  readonly #map: ReadonlyMap<Key, Value>
  #entries: Iterator<[Key, Value]>

  constructor(map: ReadonlyMap<Key, Value>) {
    this.#map = map
    this.#entries = map.entries()
  }

  /** The next entry; undefined when the map is empty. */
  step(): [Key, Value] | undefined {
    let next = this.#entries.next()
    if (next.done) {
      this.#entries = this.#map.entries()
      next = this.#entries.next()
    }
    return next.done ? undefined : next.value
  }
}
