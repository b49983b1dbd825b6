/**
 * Until when what was read may be used without another look. Never before the moment when it was read, either: where
 * the clock was set back, nobody knows how old it is.
 */
export class Freshness {
  #fromMs = Number.NaN
  #untilMs = Number.NaN

  /** Whether what was read is fresh; not so before `start`. */
  covers(nowMs: number): boolean {
    return nowMs >= this.#fromMs && nowMs < this.#untilMs
  }

  start(fromMs: number, forMs: number): void {
    this.#fromMs = fromMs
    this.#untilMs = fromMs + forMs
  }

  end(): void {
    this.#untilMs = Number.NaN
  }
}
