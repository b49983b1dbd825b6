/** How long something takes, in milliseconds. */
export interface Timing {
  readonly p50Ms: number
  readonly p95Ms: number
}

/** Before what is measured: a page that is made for the first time is compiled meanwhile. */
const MAX_WARM_UPS = 20

/** Measures work that was done before, so that nothing is measured but itself. */
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

/** The nearest rank. */
function rank(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}
