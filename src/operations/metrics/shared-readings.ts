import { READINGS, type ReadingName } from './instruments.js'

/** Functions that return an app's figures. One that is absent, or returns undefined, does not apply to the app. */
export type AppReadings = Readonly<Partial<Record<ReadingName, () => number | undefined>>>

type Reading = (typeof READINGS)[number]

/** The figures of all apps of a process that report to the same target. */
export class SharedReadings {
  readonly #apps = new Set<AppReadings>()
  /** The last counters of closed apps: a counter that decreases would be taken for a restart. */
  readonly #closed = new Map<ReadingName, number>()

  /** @returns a function that the app calls when it has closed */
  join(app: AppReadings): () => void {
    this.#apps.add(app)
    return () => this.#leave(app)
  }

  /** Returns the combined figure of all apps; undefined where none has it. */
  value({ reading, combine }: Reading): number | undefined {
    const figures = [this.#closed.get(reading), ...[...this.#apps].map((app) => app[reading]?.())]
    const present = figures.filter((figure) => figure !== undefined)
    if (present.length === 0) return undefined
    return combine === 'max' ? Math.max(...present) : present.reduce((sum, figure) => sum + figure)
  }

  #leave(app: AppReadings): void {
    if (!this.#apps.delete(app)) return
    for (const { reading, kind } of READINGS) {
      const last = kind === 'counter' ? app[reading]?.() : undefined
      if (last !== undefined) this.#closed.set(reading, (this.#closed.get(reading) ?? 0) + last)
    }
  }
}
