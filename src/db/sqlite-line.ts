/**
 * Lets one statement after the other run, in their order: those of two connections to a file, which has one writer at a
 * time, and blocks the thread of the other one.
 */
export class StatementLine {
  readonly #waiting: (() => void)[] = []
  #isBusy = false

  /** Runs a statement: at once where none is under way. */
  run<T>(statement: () => Promise<T>): Promise<T> {
    if (!this.#isBusy) return this.#start(statement)
    return new Promise((resolve) => this.#waiting.push(() => resolve(this.#start(statement))))
  }

  /** Starts all statements that wait, whatever is under way. */
  release(): void {
    for (const start of this.#waiting.splice(0)) start()
  }

  #start<T>(statement: () => Promise<T>): Promise<T> {
    this.#isBusy = true
    return statement().finally(() => {
      const next = this.#waiting.shift()
      if (next === undefined) this.#isBusy = false
      else next()
    })
  }
}
