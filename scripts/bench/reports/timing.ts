/** How long something takes, in milliseconds. */
export interface Timing {
  readonly p50Ms: number
  readonly p95Ms: number
}

/** Measures work that was done once before, so that nothing is measured but itself. */
export async function timed(runs: number, work: () => Promise<unknown>): Promise<Timing> {
  await work()
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
