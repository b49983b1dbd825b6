import { DAY_MS, HOUR_MS } from '../time/clock.js'
import type { BlockedCounts, Leaders } from './blocked-counts.js'
import type { BucketRange } from './period.js'
import type { LogSnapshot } from './window.js'

/** How many keys are read: the more, the fewer lists need those below them. */
export interface LeaderSizes {
  /** Of the buckets of past days, which are read once. */
  readonly closed: number
  /** Of the present day, which every report reads. */
  readonly open: number
}

/** How long the leaders of a window are kept up to date after its last report. */
const KEPT_MS = DAY_MS
/** The number of window lengths whose leaders are kept. */
const MAX_WINDOWS = 8

interface Kept {
  readonly version: string
  readonly leaders: Leaders
  readonly firstHour: number
  readonly usedMs: number
}

/** Keeps the leaders of past days, which change only where late events are folded or an hour is counted again. */
export class ClosedLeaders {
  readonly sizes: LeaderSizes
  /** By the length of the window; the one that was not used for the longest time is the first. */
  readonly #kept = new Map<number, Kept>()

  constructor(sizes: LeaderSizes = { closed: 10_000, open: 2_000 }) {
    this.sizes = sizes
  }

  /** Has the leaders of a window read by the next `refresh`, before there is a report. */
  expect(windowMs: number, nowMs: number): void {
    const leaders = { counts: new Map(), others: 0 }
    this.#kept.set(windowMs, { version: '', leaders, firstHour: Number.NaN, usedMs: nowMs })
  }

  async read(
    { sums, nowMs }: LogSnapshot,
    counts: BlockedCounts,
    ranges: readonly BucketRange[],
    windowMs: number,
  ): Promise<Leaders> {
    const version = JSON.stringify([ranges, sums.recounts, await counts.folded(ranges)])
    const kept = this.#kept.get(windowMs)
    const leaders = kept?.version === version ? kept.leaders : await counts.leaders(ranges, this.sizes.closed)
    this.#kept.delete(windowMs)
    this.#kept.set(windowMs, { version, leaders, firstHour: firstHour(windowMs, nowMs), usedMs: nowMs })
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_WINDOWS) this.#kept.delete(each)
    return leaders
  }

  /** Reads the leaders of the windows that have reached another hour, so that no report has to. */
  async refresh(nowMs: number, read: (windowMs: number) => Promise<unknown>): Promise<void> {
    for (const [windowMs, before] of [...this.#kept]) {
      if (before.firstHour === firstHour(windowMs, nowMs)) continue
      if (nowMs - before.usedMs > KEPT_MS) {
        this.#kept.delete(windowMs)
        continue
      }
      await read(windowMs)
      const kept = this.#kept.get(windowMs)
      if (kept !== undefined) this.#kept.set(windowMs, { ...kept, usedMs: before.usedMs })
    }
  }
}

function firstHour(windowMs: number, nowMs: number): number {
  return Math.round((nowMs - windowMs) / HOUR_MS)
}
