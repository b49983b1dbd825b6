import { CooperativeYield } from '../../ground/time/cooperative-yield.js'

/** Characters that are decoded at once: a fraction of a millisecond of work. */
const PIECE = 65_536
const ESCAPE = /^%[\da-f]{2}/i
/** Matches the escape of a byte with which no character begins. */
const FURTHER_BYTE = /^%[89ab][\da-f]/i

/**
 * Parses a posted form as `URLSearchParams` does, and lets other work of the process run in between: a document to import
 * has megabytes.
 */
export async function parsePostedForm(body: string): Promise<URLSearchParams> {
  if (body.length <= PIECE) return new URLSearchParams(body)
  const slices = new CooperativeYield()
  const form = new URLSearchParams()
  let from = 0
  while (from < body.length) {
    const end = before(body.indexOf('&', from), body.length)
    const equals = before(body.indexOf('=', from), end)
    const texts: string[] = []
    for (let start = Math.min(equals + 1, end); start < end; ) {
      const stop = pieceEnd(body, start + PIECE, end)
      texts.push(decode(body.slice(start, stop)))
      start = stop
      if (slices.over()) await slices.pause()
    }
    // Joining megabytes is a slice of its own.
    if (texts.length > 1) await slices.pause()
    if (end > from) form.append(decode(body.slice(from, equals)), texts.join(''))
    from = end + 1
    if (slices.over()) await slices.pause()
  }
  return form
}

/** Returns a place that was found before a limit, or the limit. */
function before(found: number, limit: number): number {
  return found === -1 || found > limit ? limit : found
}

/** Returns a place that divides neither an escape nor an escaped character, from one on, some characters later at most. */
function pieceEnd(body: string, from: number, limit: number): number {
  let place = Math.min(from, limit)
  while (place < limit && [place - 1, place - 2].some((near) => ESCAPE.test(body.slice(near, near + 3)))) place += 1
  // A character has three more bytes at most: further ones are none.
  for (let bytes = 0; bytes < 3 && FURTHER_BYTE.test(body.slice(place, place + 3)); bytes++) place += 3
  return place
}

function decode(encoded: string): string {
  return new URLSearchParams(`text=${encoded}`).get('text') ?? ''
}
