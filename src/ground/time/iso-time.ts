import { MINUTE_MS } from './clock.js'

/** A moment that a text names. */
export interface IsoTime {
  /** The milliseconds since the epoch; without a zone in the text, as if it were in UTC. */
  readonly ms: number
  readonly hasZone: boolean
}

const ISO_TIME = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?$/i
const ZONE = /^([+-])(\d\d):?(\d\d)$/

/**
 * Parses `2026-11-24T14:00Z`, `2026-11-24 14:00:05.250+01:00`, or `2026-11-24`; undefined for any other text, and for days
 * and times that no clock shows, such as the 31st of February, which JavaScript takes for a day of March.
 */
export function parseIsoTime(text: string): IsoTime | undefined {
  const match = ISO_TIME.exec(text)
  if (match === null) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0))
  const fraction = Math.floor(Number(`0.${match[7] ?? 0}`) * 1_000)
  const zone = match[8]
  const ms = Date.UTC(year, month - 1, day, hour, minute, second, fraction)
  const shown = new Date(ms)
  const isShown =
    shown.getUTCFullYear() === year &&
    shown.getUTCMonth() === month - 1 &&
    shown.getUTCDate() === day &&
    shown.getUTCHours() === hour &&
    shown.getUTCMinutes() === minute &&
    shown.getUTCSeconds() === second
  return isShown ? { ms: ms - zoneMs(zone), hasZone: zone !== undefined } : undefined
}

/** Returns how far a zone is ahead of UTC. */
function zoneMs(zone = 'Z'): number {
  const [, sign, hours, minutes] = ZONE.exec(zone) ?? []
  const aheadMs = (60 * Number(hours ?? 0) + Number(minutes ?? 0)) * MINUTE_MS
  return sign === '-' ? -aheadMs : aheadMs
}

/** Returns the UTC day of a moment, such as `2026-11-24`. */
export function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
