/** Decides what is unusual, and how long it lasts. Pure; hours are numbered since the epoch, in UTC. */

/** A client is heavy from so many refusals in an hour on, and a policy from so many. */
export const HEAVY_CLIENT = 50
export const HEAVY_POLICY = 200
const TIMES_USUAL = 5
const USUAL_DAYS = 7
const DAY_HOURS = 24
/**
 * The number of hours that are not heavy after which something has ended, or become usual: a trickle of refusals may go
 * on for ever.
 */
export const QUIET_HOURS = 24

export interface HourSpan {
  readonly from: number
  readonly to: number
}

/** Returns the same hour of the last seven days, of those days that the log has. */
export function usualHours(hour: number, firstHour: number): number[] {
  return Array.from({ length: USUAL_DAYS }, (_, index) => hour - (index + 1) * DAY_HOURS).filter(
    (each) => each >= firstHour,
  )
}

/** Returns the median; between two values, their mean; 0 of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const upper = Math.floor(sorted.length / 2)
  const [low = 0, high = 0] = [sorted[sorted.length % 2 === 0 ? upper - 1 : upper], sorted[upper]]
  return (low + high) / 2
}

export function isHeavy(refused: number, usual: number, least: number): boolean {
  return refused >= least && refused >= TIMES_USUAL * usual
}

/**
 * Returns the spans of hours of incidents: each begins with a heavy hour, and lasts while refusals go on.
 *
 * @param present the last hour
 */
export function spansFrom(
  heavyHours: Iterable<number>,
  goesOn: (hour: number) => boolean,
  present: number,
): HourSpan[] {
  const heavy = new Set(heavyHours)
  const spans: HourSpan[] = []
  for (const from of [...heavy].toSorted((one, other) => one - other)) {
    if (from < (spans.at(-1)?.to ?? 0)) continue
    let lastHeavy = from
    let to = from + 1
    for (; to <= present && (heavy.has(to) || (goesOn(to) && to - lastHeavy < QUIET_HOURS)); to++) {
      if (heavy.has(to)) lastHeavy = to
    }
    spans.push({ from, to })
  }
  return spans
}
