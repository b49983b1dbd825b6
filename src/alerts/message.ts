import { visible } from '../visible.js'
import type { Offender } from './offender.js'

/** The message of one channel in one run. */
export interface AlertMessage {
  /** The identity of the watch: the same in every run with the same recipients, threshold and window. */
  readonly watch: string
  readonly threshold: number
  readonly days: number
  /** The offenders to report, the most blocked first. */
  readonly offenders: readonly Offender[]
  /** Keys that were reported before, and are below the threshold again. */
  readonly resolved: readonly string[]
  /** The number of keys that were reported, now or before, and are not resolved. */
  readonly remaining: number
}

/** A shortened list for people. */
export interface Listing {
  readonly lines: readonly Offender[]
  /** The number of entries that are left out. */
  readonly more: number
}

/** Returns a title without any key: subjects end up in lists, notifications and logs of mail servers. */
export function toTitle({ offenders, resolved }: AlertMessage): string {
  return offenders.length > 0 ? `${offenders.length} offender(s) alert` : `${resolved.length} offender(s) resolved`
}

export function toSentence({ offenders, resolved, threshold, days }: AlertMessage): string {
  const window = `${threshold} times or more in ${days} day(s)`
  return offenders.length > 0
    ? `${offenders.length} client(s) were blocked ${window}.`
    : `${resolved.length} client(s) are no longer blocked ${window}.`
}

/**
 * Returns the first `max` offenders, with control and invisible characters of their keys escaped.
 *
 * @param maxKeyLength in characters; longer keys are cut
 */
export function listOffenders(
  offenders: readonly Offender[],
  max: number,
  maxKeyLength = Number.MAX_SAFE_INTEGER,
): Listing {
  const lines = offenders.slice(0, max).map(({ key, blocked_count }) => ({
    key: shortened(visible(key), maxKeyLength),
    blocked_count,
  }))
  return { lines, more: offenders.length - lines.length }
}

/** Does the same for resolved keys. */
export function listedKeys(keys: readonly string[], max: number, maxKeyLength = Number.MAX_SAFE_INTEGER) {
  const lines = keys.slice(0, max).map((key) => shortened(visible(key), maxKeyLength))
  return { lines, more: keys.length - lines.length }
}

/**
 * Returns both lists as lines of text, for messages without layout.
 *
 * @param max the most keys to show; two lists share them equally
 */
export function textLines({ offenders, resolved }: AlertMessage, max: number, maxKeyLength: number): string[] {
  const each = offenders.length > 0 && resolved.length > 0 ? Math.floor(max / 2) : max
  const shown = listOffenders(offenders, each, maxKeyLength)
  const silent = listedKeys(resolved, each, maxKeyLength)
  return [
    ...shown.lines.map(({ key, blocked_count }) => `${key}: ${blocked_count}`),
    ...(shown.more > 0 ? [`and ${shown.more} more`] : []),
    ...(silent.lines.length > 0 ? ['Resolved:', ...silent.lines] : []),
    ...(silent.more > 0 ? [`and ${silent.more} more`] : []),
  ]
}

function shortened(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength - 1).toWellFormed()}…` : text
}
