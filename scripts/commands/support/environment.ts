import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { codeOf, messageOf } from '../../../src/errors.js'

/**
 * Reads `.env` in the working directory, where there is one. What the environment already holds wins.
 *
 * @throws Error for one that cannot be read: without its settings a command would do nothing, and find nothing wrong
 */
export function loadEnvironmentFile(): void {
  // Editors of some systems begin a file with a byte order mark.
  const settings = parseEnv((readEnvironmentFile() ?? '').replace(/^\uFEFF/, ''))
  for (const [name, value] of Object.entries(settings)) process.env[name] ??= value
}

/** By hand, since Node says of a file that may not be read that there is none. */
function readEnvironmentFile(): string | undefined {
  try {
    return readFileSync('.env', 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(`.env in the working directory cannot be read: ${messageOf(error)}`)
  }
}
