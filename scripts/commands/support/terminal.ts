import type { Writable } from 'node:stream'

/** What a terminal would obey, or show as something else than it is: controls, format characters, half characters. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/**
 * One line that is safe to show: client keys, paths and rule names come from strangers. JSON stays the same JSON,
 * since what it may escape is all that is replaced in it.
 */
export function printable(line: string): string {
  return line.replace(UNPRINTABLE, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  )
}

export function printLine(line: string, stdout: Writable = process.stdout): void {
  stdout.write(`${printable(line)}\n`)
}

/** Says something on stderr, where a scheduler finds it and a pipe does not. */
export function warnLine(line: string, stderr: Writable = process.stderr): void {
  stderr.write(`${printable(line)}\n`)
}
