/** The range of JavaScript's dates. */
const MAX_DATE_MS = 8.64e15

/** Formats a timestamp. Raw SQL may have written an invalid one, which becomes the earliest or latest date. */
export function clampedIsoTime(ms: number): string {
  const time = Number.isNaN(Number(ms)) ? 0 : Number(ms)
  return new Date(Math.max(-MAX_DATE_MS, Math.min(MAX_DATE_MS, time))).toISOString()
}
