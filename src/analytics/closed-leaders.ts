import type { BlockedCounts, Leaders } from './blocked-counts.js'
import type { BucketRange } from './period.js'
import type { Snapshot } from './window.js'

/** How many keys are read: the more, the fewer lists need those below them. */
export interface LeaderSizes {
  /** Of the buckets of past days, which are read once. */
  readonly closed: number
  /** Of the present day, which every report reads. */
  readonly open: number
}

/** The number of window lengths whose leaders are kept. */
const MAX_WINDOWS = 8

/** Keeps the leaders of past days, which change only where late events are folded or an hour is counted again. */
export class ClosedLeaders {
  readonly sizes: LeaderSizes
  readonly #kept = new Map<number, { readonly version: string; readonly leaders: Leaders }>()

  constructor(sizes: LeaderSizes = { closed: 10_000, open: 2_000 }) {
    this.sizes = sizes
  }

  /** @param windowMs the length of the window: only the latest leaders of each length are kept */
  async read(
    { sums }: Snapshot,
    counts: BlockedCounts,
    ranges: readonly BucketRange[],
    windowMs: number,
  ): Promise<Leaders> {
    const version = JSON.stringify([ranges, sums.recounts, await counts.folded(ranges)])
    const kept = this.#kept.get(windowMs)
    const leaders = kept?.version === version ? kept.leaders : await counts.leaders(ranges, this.sizes.closed)
    // The one that was not used for the longest time is the first.
    this.#kept.delete(windowMs)
    this.#kept.set(windowMs, { version, leaders })
    for (const each of this.#kept.keys()) if (this.#kept.size > MAX_WINDOWS) this.#kept.delete(each)
    return leaders
  }
}
