/** The longest wait for a statement, in milliseconds: one that takes longer mostly waits for another process itself. */
export const PATIENCE_MS = 1_000

/**
 * Runs the statements of two connections to one file one after the other, in the order of the calls: if both wrote at
 * once, one would block its thread until the other is done.
 */
export class StatementLine {
  readonly #waiting: (() => void)[] = []
  #underWay = 0
  #startedMs = 0

  /** Runs a statement: at once where none is under way, and after those that wait where one has been for too long. */
  run<T>(statement: () => Promise<T>): Promise<T> {
    if (performance.now() - this.#startedMs > PATIENCE_MS) this.release()
    else if (this.#underWay > 0) return this.#wait(statement)
    return this.#start(statement)
  }

  #wait<T>(statement: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => this.#waiting.push(() => resolve(this.#start(statement))))
  }

  /** Starts all waiting statements, beside those that run. */
  release(): void {
    for (const start of this.#waiting.splice(0)) start()
  }

  #start<T>(statement: () => Promise<T>): Promise<T> {
    const startedMs = performance.now()
    this.#underWay++
    this.#startedMs = startedMs
    return statement().finally(() => {
      this.#underWay--
      // A lock of another process would make the waiting statements wait as long, one after the other.
      if (performance.now() - startedMs > PATIENCE_MS) this.release()
      else if (this.#underWay === 0) this.#waiting.shift()?.()
    })
  }
}
