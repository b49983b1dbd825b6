import { visible } from '../visible.js'
import type { Offender } from './offender.js'

/** What one channel tells in one run. */
export interface AlertMessage {
  /** Who is told of what; the same in every run with the same recipients, threshold and window. */
  readonly watch: string
  readonly threshold: number
  readonly days: number
  /** Whom it is about, the most blocked first. */
  readonly offenders: readonly Offender[]
  /** Keys that were told before, and are below the threshold again. */
  readonly resolved: readonly string[]
  /** How many keys were told before, or are told now, and have not fallen silent. */
  readonly remaining: number
}

/** A list for people. */
export interface Listing {
  readonly lines: readonly Offender[]
  /** How many there are besides. */
  readonly more: number
}

/** Has no key in it: subjects end up in lists, in notifications and in the logs of mail servers. */
export function titleOf({ offenders, resolved }: AlertMessage): string {
  return offenders.length > 0 ? `${offenders.length} offender(s) alert` : `${resolved.length} offender(s) resolved`
}

export function sentenceOf({ offenders, resolved, threshold, days }: AlertMessage): string {
  const window = `${threshold} times or more in ${days} day(s)`
  return offenders.length > 0
    ? `${offenders.length} client(s) were blocked ${window}.`
    : `${resolved.length} client(s) are no longer blocked ${window}.`
}

/**
 * The first so many, with nothing in their keys that hides or commands.
 *
 * @param maxKeyLength longer keys are cut, in characters
 */
export function listed(offenders: readonly Offender[], max: number, maxKeyLength = Number.MAX_SAFE_INTEGER): Listing {
  const lines = offenders.slice(0, max).map(({ key, blocked_count }) => ({
    key: shortened(visible(key), maxKeyLength),
    blocked_count,
  }))
  return { lines, more: offenders.length - lines.length }
}

/** The same for keys that fell silent. */
export function listedKeys(keys: readonly string[], max: number, maxKeyLength = Number.MAX_SAFE_INTEGER) {
  const lines = keys.slice(0, max).map((key) => shortened(visible(key), maxKeyLength))
  return { lines, more: keys.length - lines.length }
}

/**
 * The list as lines of text, for messages that have no layout.
 *
 * @param max so many keys are shown; where there are two lists, each has half of them
 */
export function textLines({ offenders, resolved }: AlertMessage, max: number, maxKeyLength: number): string[] {
  const each = offenders.length > 0 && resolved.length > 0 ? Math.floor(max / 2) : max
  const told = listed(offenders, each, maxKeyLength)
  const silent = listedKeys(resolved, each, maxKeyLength)
  return [
    ...told.lines.map(({ key, blocked_count }) => `${key}: ${blocked_count}`),
    ...(told.more > 0 ? [`and ${told.more} more`] : []),
    ...(silent.lines.length > 0 ? ['Resolved:', ...silent.lines] : []),
    ...(silent.more > 0 ? [`and ${silent.more} more`] : []),
  ]
}

function shortened(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength - 1).toWellFormed()}…` : text
}
