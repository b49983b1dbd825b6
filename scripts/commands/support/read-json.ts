import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { errorMessage } from '../../../src/ground/errors.js'
import type { CommandContext } from './command.js'

/**
 * Reads a JSON file.
 *
 * @param file `-` for standard input
 * @throws Error for a file that cannot be read, or is not JSON
 */
export async function readJson(file: string, { stdin }: CommandContext): Promise<unknown> {
  const bytes = file === '-' ? await buffer(stdin) : await readFile(file)
  try {
    return JSON.parse(new TextDecoder(detectEncoding(bytes), { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Error(`${inputName(file)} is not valid JSON: ${errorMessage(error)}`)
  }
}

/** Returns the encoding of JSON, which begins in ASCII or with a byte order mark: some editors save UTF-16. */
function detectEncoding([first, second]: Uint8Array): string {
  if (first === 0 || (first === 0xfe && second === 0xff)) return 'utf-16be'
  return second === 0 || (first === 0xff && second === 0xfe) ? 'utf-16le' : 'utf-8'
}

/** Returns the name of the input for messages. */
export function inputName(file: string): string {
  return file === '-' ? 'standard input' : file
}
