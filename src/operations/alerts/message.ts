import { countOf } from '../../ground/number-text.js'
import { visible } from '../../ground/visible.js'
import type { Offender } from '../../reports/ranking.js'

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
  /** The address of the dashboard; undefined where it is not known. */
  readonly publicUrl?: string | undefined
}

/** An offender as people read it. */
export interface ListedOffender extends Offender {
  /** The page or the search for the client; absent where the address of the dashboard is not known. */
  readonly url?: string
}

/** A shortened list for people. */
interface Listing {
  readonly lines: readonly ListedOffender[]
  /** The number of entries that are left out. */
  readonly more: number
}

/** Returns a title without any key: subjects end up in lists, notifications and logs of mail servers. */
export function toTitle({ offenders, resolved }: AlertMessage): string {
  return offenders.length > 0 ? `${offenders.length} offender(s) alert` : `${resolved.length} offender(s) resolved`
}

const ABOUT_KEYS = 'A client has a key for each rule that refused it.'

/** Returns a sentence that counts keys. One attack may have several, so it then says what a key is. */
export function toSentence({ offenders, resolved, threshold, days }: AlertMessage): string {
  const window = `${threshold} times or more in ${countOf(days, 'day')}`
  const sentence =
    offenders.length > 0
      ? `${countOf(offenders.length, 'key was', 'keys were')} refused ${window}.`
      : `${countOf(resolved.length, 'key is', 'keys are')} no longer refused ${window}.`
  return offenders.length > 1 ? `${sentence} ${ABOUT_KEYS}` : sentence
}

/**
 * Returns the first `max` offenders, with control and invisible characters of their keys escaped.
 *
 * @param maxKeyLength in characters; longer keys are cut
 */
export function listOffenders(
  { offenders, publicUrl, days }: AlertMessage,
  max: number,
  maxKeyLength = Number.MAX_SAFE_INTEGER,
): Listing {
  const lines = offenders.slice(0, max).map(({ key, blocked_count }) => ({
    key: shortened(visible(key), maxKeyLength),
    blocked_count,
    ...(publicUrl !== undefined && { url: clientLink(publicUrl, key, days) }),
  }))
  return { lines, more: offenders.length - lines.length }
}

/** Does the same for resolved keys. */
export function listedKeys(keys: readonly string[], max: number, maxKeyLength = Number.MAX_SAFE_INTEGER) {
  const lines = keys.slice(0, max).map((key) => shortened(visible(key), maxKeyLength))
  return { lines, more: keys.length - lines.length }
}

/** A line of a message without layout. */
export interface TextLine {
  readonly text: string
  /** The target of the link, if the address is short enough for a chat. */
  readonly url?: string | undefined
}

/** The longest address: with twenty of them a message stays within the limits of every chat. */
const MAX_URL_LENGTH = 400

/**
 * Returns both lists as lines of text, for messages without layout.
 *
 * @param max the most keys to show; two lists share them equally
 */
export function textLines(message: AlertMessage, max: number, maxKeyLength: number): TextLine[] {
  const { offenders, resolved } = message
  const each = offenders.length > 0 && resolved.length > 0 ? Math.floor(max / 2) : max
  const shown = listOffenders(message, each, maxKeyLength)
  const silent = listedKeys(resolved, each, maxKeyLength)
  const notes = [
    ...(shown.more > 0 ? [`and ${shown.more} more`] : []),
    ...(silent.lines.length > 0 ? ['Resolved:', ...silent.lines] : []),
    ...(silent.more > 0 ? [`and ${silent.more} more`] : []),
  ]
  return [
    ...shown.lines.map(({ key, blocked_count, url = '' }) => ({
      text: `${key}: ${blocked_count}`,
      ...(url !== '' && url.length <= MAX_URL_LENGTH && { url }),
    })),
    ...notes.map((text) => ({ text })),
  ]
}

/** Cuts a text that is longer than so many characters. */
export function shortened(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength - 1).toWellFormed()}…` : text
}

/** The days of a window that the dashboard shows. */
const MAX_DAYS = 365
/** A key that is the client itself; others say by which rule it was counted, and the search finds the client. */
const CLIENT = /^(?:ip|user):/

/** Parses the address of a dashboard, with a slash at its end; undefined for a text that is none. */
export function parsePublicUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = url.search === '' && url.hash === '' && url.username === '' && url.password === ''
  if (!/^https?:$/.test(url.protocol) || !isPlain) return undefined
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  // Brackets would end a link in Markdown.
  return url.href.replaceAll('(', '%28').replaceAll(')', '%29')
}

/**
 * Returns the address of a client's page, whose parameters have no character that a message would interpret.
 *
 * @param publicUrl as `parsePublicUrl` answers it
 * @param key of the log
 */
export function clientLink(publicUrl: string, key: string, days: number): string {
  const window = String(Math.min(MAX_DAYS, Math.max(1, Math.ceil(days))))
  const [page, parameter] = CLIENT.test(key) ? ['client.html', 'client'] : ['search.html', 'q']
  return `${publicUrl}${page}?${new URLSearchParams({ [parameter]: key, days: window })}`
}
