/** What was read of single hours, kept until something in them changes. */
export class HourMemo<Value> {
  readonly #kept = new Map<number, { readonly version: string; readonly value: Value }>()

  /** Returns what is known of an hour, or reads it. Hours that were not used for the longest time are forgotten. */
  async read(hour: number, version: string, read: () => Promise<Value>): Promise<Value> {
    const kept = this.#kept.get(hour)
    const value = kept?.version === version ? kept.value : await read()
    this.#kept.delete(hour)
    this.#kept.set(hour, { version, value })
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_HOURS) this.#kept.delete(each)
    return value
  }

  clear(): void {
    this.#kept.clear()
  }
}

/** Forty days: a month, and what was usual before it. */
const MAX_HOURS = 960
