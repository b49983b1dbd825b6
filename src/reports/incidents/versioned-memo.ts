/** The results of reading single hours, or incidents that are over, kept until something in them changes. */
export class VersionedMemo<Key, Value> {
  readonly #kept = new Map<Key, { readonly version: string; readonly value: Value }>()

  /** Returns what is known of a version; undefined where that has to be read. */
  get(key: Key, version: string): Value | undefined {
    const kept = this.#kept.get(key)
    return kept?.version === version ? kept.value : undefined
  }

  /** Keeps a value. What was kept for the longest time is forgotten. */
  set(key: Key, version: string, value: Value): void {
    this.#kept.delete(key)
    this.#kept.set(key, { version, value })
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_ENTRIES) this.#kept.delete(each)
  }

  clear(): void {
    this.#kept.clear()
  }
}

/** Forty days of hours: a month, and what was usual before it. */
const MAX_ENTRIES = 960
