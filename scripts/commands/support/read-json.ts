import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { errorMessage } from '../../../src/errors.js'
import type { CommandContext } from './command.js'

/**
 * Reads a JSON file.
 *
 * @param file `-` for standard input
 * @throws Error for a file that cannot be read, or is not JSON
 */
export async function readJson(file: string, { stdin }: CommandContext): Promise<unknown> {
  const json = file === '-' ? await text(stdin) : await readFile(file, 'utf8')
  try {
    // Editors of some systems begin a file with a byte order mark.
    return JSON.parse(json.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new Error(`${inputName(file)} is no JSON: ${errorMessage(error)}`)
  }
}

/** Returns the name of the input for messages. */
export function inputName(file: string): string {
  return file === '-' ? 'standard input' : file
}
