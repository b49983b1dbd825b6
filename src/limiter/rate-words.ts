/** Reads rates and lengths as people write them, to say how they are spelled: `5 per minute` is `5/m`. */
import { MAX_RATE_LENGTH, parseLength, parseRate } from './rate.js'

const UNITS: readonly (readonly [words: RegExp, unit: string, factor: number])[] = [
  [/^s(?:ecs?|econds?)?$/, 's', 1],
  [/^m(?:ins?|inutes?)?$/, 'm', 1],
  [/^h(?:rs?|ours?)?$/, 'h', 1],
  [/^d(?:ays?)?$/, 'd', 1],
  [/^w(?:ks?|eeks?)?$/, 'd', 7],
]
const MONTH = /^mo(?:nths?)?$/
const LENGTH = /^(\d{1,9})?\s*([a-z]+)\.?$/
/** A count, perhaps of something, and a period: `1,000 requests per 30 seconds`. */
const WINDOW =
  /^(\d{1,3}(?:[ ',_]\d{3})+|\d{1,10})\s*(?:x|times|requests?|reqs?|calls?|hits?)?\s*(?:\/|per\b|an?\b|every\b|each\b|in\b|within\b)\s*(?:an?\s+)?(.+)$/
/** `100rpm`. */
const SHORT = /^(\d{1,10})\s*(?:rp|\/)\s*([smhd])$/
/** The separators between windows, which are not within a number. */
const BETWEEN = /;|\band\b|(?<!\d),|,(?!\d{3}(?!\d))/

/** The accepted durations, for messages. */
export const DURATIONS = '30m, 2h or 7d, at most 366d'

/** Returns the milliseconds of a duration such as `2h` or `2 hours`; undefined for a text that is none. */
export function readDuration(text: string): number | undefined {
  const spelling = spellLength(text)
  return spelling === undefined ? undefined : parseLength(spelling)
}

/** Returns the spelling of a length such as `2 hours`; undefined for a text that is none. */
export function spellLength(text: string): string | undefined {
  if (text.length > MAX_RATE_LENGTH) return undefined
  const [, digits = '1', word = ''] = LENGTH.exec(text.trim().toLowerCase()) ?? []
  const [, unit, factor] = UNITS.find(([words]) => words.test(word)) ?? []
  if (unit === undefined || factor === undefined) return undefined
  const spelling = `${Number(digits) * factor}${unit}`
  return parseLength(spelling) === undefined ? undefined : spelling
}

/** Returns the spelling of a rate such as `5 per minute, 100 an hour`; undefined for a text that is none. */
export function spellRate(text: string): string | undefined {
  if (text.length > MAX_RATE_LENGTH) return undefined
  const windows = text.toLowerCase().split(BETWEEN).map(spellWindow)
  const spelling = windows.join(', ')
  try {
    parseRate(spelling)
  } catch {
    return undefined
  }
  return spelling
}

function spellWindow(text: string): string | undefined {
  const trimmed = text.trim()
  const [, count = '', period = ''] = SHORT.exec(trimmed) ?? WINDOW.exec(trimmed) ?? []
  const limit = count.replace(/\D/g, '')
  if (MONTH.test(period.trim())) return `${limit}/month`
  const length = spellLength(period)
  return length === undefined ? undefined : `${limit}/${length.replace(/^1(?=\D)/, '')}`
}
