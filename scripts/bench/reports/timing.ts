/** The duration of some work, in milliseconds. */
export interface Timing {
  readonly p50Ms: number
  readonly p95Ms: number
}

/** The most runs before the measurement, in which a page's code is compiled. */
const MAX_WARM_UPS = 20

/** Measures work after a warm-up. */
export async function timed(runs: number, work: () => Promise<unknown>): Promise<Timing> {
  for (let warmUp = 0; warmUp < Math.min(runs, MAX_WARM_UPS); warmUp++) await work()
  const tookMs: number[] = []
  for (let run = 0; run < runs; run++) {
    const startedMs = performance.now()
    await work()
    tookMs.push(performance.now() - startedMs)
  }
  const sorted = tookMs.toSorted((a, b) => a - b)
  return { p50Ms: rank(sorted, 0.5), p95Ms: rank(sorted, 0.95) }
}

/** Returns the value of the nearest rank. */
function rank(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}
