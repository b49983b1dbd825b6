import type { Writable } from 'node:stream'

/** Characters that a terminal obeys or displays misleadingly: controls, format characters, half characters. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/**
 * Returns a line that is safe to show, since client keys, paths and rule names come from strangers. JSON keeps its
 * meaning, since only characters that it may escape are replaced.
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

/** Writes a line to stderr, where a scheduler finds it and a pipe does not. */
export function warnLine(line: string, stderr: Writable = process.stderr): void {
  stderr.write(`${printable(line)}\n`)
}

/** Returns a table with right-aligned columns, except the last one, which may be long. */
export function tableLines(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const all = [head, ...rows]
  const widths = head.slice(0, -1).map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)))
  return all.map(
    (row) =>
      `  ${row
        .map((cell, column) => cell.padStart(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}`,
  )
}
