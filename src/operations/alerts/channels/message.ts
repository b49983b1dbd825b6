/** What alerts send: one form for everything that they tell of. Each channel renders it. */
import { visible } from '../../../ground/visible.js'

export interface Message {
  /** The identity that all messages about one thing share, for receivers that put them together. */
  readonly id: string
  /** `less`: a part of what was told is over, and the rest goes on. */
  readonly kind: 'alarm' | 'notice' | 'less' | 'over' | 'test'
  /** The title has no text that a client wrote: subjects end up in lists, notifications and logs of mail servers. */
  readonly title: string
  /** The sentence has no text that somebody wrote: some formats have markup there. */
  readonly sentence: string
  /** What is worth a line each, the most important first: at most `MAX_LINES`. */
  readonly facts: readonly Fact[]
  /** The number of further facts; 0 unless given. */
  readonly more?: number
  /** The heads of the facts' columns, where they are a list. */
  readonly columns?: readonly [name: string, value: string]
  /** The names of facts that were told before and are over, with control and invisible characters escaped. */
  readonly over?: readonly string[]
  readonly moreOver?: number
  readonly links: readonly MessageLink[]
  /** The last line of a mail. */
  readonly footnote?: string
  /** The address of the dashboard; undefined where it is not known. */
  readonly publicUrl: string | undefined
  /** The object for receivers of JSON. */
  readonly json: object
  /** What paging systems show; the facts unless given. */
  readonly details?: object
}

/** A line of a message, with control and invisible characters escaped. */
export interface Fact {
  readonly name: string
  readonly value: string
  /** Where the subject of the line is looked into. */
  readonly url?: string | undefined
  /** The colour in mails, as the light pages have it. */
  readonly colour?: string
}

export interface MessageLink {
  readonly text: string
  /** The address, without a character that a message would interpret. */
  readonly url: string
}

export const REFUSED_COLOUR = '#b3261e'
export const DENIED_COLOUR = '#6a3fa0'
/** The most lines of a list that any channel shows; the report has the others. */
export const MAX_LINES = 100
/** The longest address in messages about one thing. */
export const MAX_URL = 1_000
/** The documented maximum of a webhook's JSON: receivers may refuse more. */
export const MAX_JSON_BYTES = 20_000

/** Returns the message that proves that a channel works. */
export function createTestMessage(publicUrl: string | undefined): Message {
  const sentence = 'This is a test message: alerts of the rate limiter arrive here. Nothing has to be done.'
  return {
    id: 'test',
    kind: 'test',
    title: 'Test message',
    sentence,
    facts: [],
    links: publicUrl === undefined ? [] : [{ text: 'Open the alerts', url: `${publicUrl}alerts.html` }],
    publicUrl,
    json: { test: true, message: sentence },
  }
}

/** Cuts a text that is longer than so many characters. */
export function shortened(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength - 1).toWellFormed()}…` : text
}

/** Returns a text that others wrote, as a line of a message shows it. */
export function shownName(text: string, maxLength: number): string {
  return shortened(visible(text), maxLength)
}

/** Formats `2026-11-26 12:53 UTC`. */
export function momentText(iso: string, length: 'minute' | 'second' = 'minute'): string {
  return `${iso.slice(0, length === 'minute' ? 16 : 19).replace('T', ' ')} UTC`
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
