/** Matches control characters, direction marks and the like, which are invisible or turn the text around them. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu

/** Returns a client's text with `\u{202e}` and the like for invisible characters. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
