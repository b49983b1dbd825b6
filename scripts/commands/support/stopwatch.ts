/** Seconds since a moment of `performance.now()`, to the millisecond. */
export function elapsedSeconds(startedMs: number): number {
  return Math.round(performance.now() - startedMs) / 1_000
}
