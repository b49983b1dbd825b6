/** What the store is doing for counters after requests have ended: `decide` waits for it before the next check on a counter. */
export class UnderWay {
  readonly #byKey = new Map<string, Promise<unknown>>()
  readonly #failed: (error: unknown) => void

  constructor(failed: (error: unknown) => void) {
    this.#failed = failed
  }

  /** Returns what is under way for a counter. Never rejects. */
  get(key: string): Promise<unknown> | undefined {
    return this.#byKey.get(key)
  }

  add(key: string, work: Promise<unknown>): void {
    const underWay = Promise.all([this.#byKey.get(key), work])
      .catch(this.#failed)
      .finally(() => {
        if (this.#byKey.get(key) === underWay) this.#byKey.delete(key)
      })
    this.#byKey.set(key, underWay)
  }

  /** Waits until all is done. */
  async close(): Promise<void> {
    await Promise.all(this.#byKey.values())
  }
}
