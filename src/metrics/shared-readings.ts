import { READINGS, type ReadingName } from './instruments.js'

/** How to ask an app for its figures. What is left out, or answers nothing, does not apply to it. */
export type AppReadings = Readonly<Partial<Record<ReadingName, () => number | undefined>>>

type Reading = (typeof READINGS)[number]

/** The figures of all apps of a process that report to the same place. */
export class SharedReadings {
  readonly #apps = new Set<AppReadings>()
  /** What the counters of apps that have closed stood at: a counter that goes down would look like a restart. */
  readonly #ofClosed = new Map<ReadingName, number>()

  /** @returns what an app calls when it has closed */
  join(app: AppReadings): () => void {
    this.#apps.add(app)
    return () => this.#leave(app)
  }

  /** The figure of all apps together; undefined where none has it. */
  value({ reading, combine }: Reading): number | undefined {
    const figures = [this.#ofClosed.get(reading), ...[...this.#apps].map((app) => app[reading]?.())]
    const known = figures.filter((figure) => figure !== undefined)
    if (known.length === 0) return undefined
    return combine === 'max' ? Math.max(...known) : known.reduce((sum, figure) => sum + figure)
  }

  #leave(app: AppReadings): void {
    if (!this.#apps.delete(app)) return
    for (const { reading, kind } of READINGS) {
      const last = kind === 'counter' ? app[reading]?.() : undefined
      if (last !== undefined) this.#ofClosed.set(reading, (this.#ofClosed.get(reading) ?? 0) + last)
    }
  }
}
