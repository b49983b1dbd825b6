/** Control characters, direction marks and the like: what would hide in a text, or turn the text around it. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu

/** A text that clients can write, with `\u{202e}` for a character that cannot be seen. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
