import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { codeOf, messageOf } from '../../../src/errors.js'

/**
 * Adds the variables of `.env` in the working directory, where there is one. What the environment already holds wins.
 *
 * @throws Error for one that cannot be read: without its settings a command would do nothing, and find nothing wrong
 */
export function withEnvironmentFile(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  // Editors of some systems begin a file with a byte order mark.
  return { ...parseEnv((readEnvironmentFile() ?? '').replace(/^\uFEFF/, '')), ...environment }
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
