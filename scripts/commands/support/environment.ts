import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { errorCode, errorMessage } from '../../../src/errors.js'

/**
 * Adds the variables of `.env` in the working directory, if it exists. The environment's own variables win.
 *
 * @throws Error for a file that cannot be read: without its settings a command would silently do nothing
 */
export function withEnvironmentFile(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  // Editors of some systems begin a file with a byte order mark.
  return { ...parseEnv((readEnvironmentFile() ?? '').replace(/^\uFEFF/, '')), ...environment }
}

/** Reads the file without Node's loader, which reports an unreadable file as missing. */
function readEnvironmentFile(): string | undefined {
  try {
    return readFileSync('.env', 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw new Error(`.env in the working directory cannot be read: ${errorMessage(error)}`)
  }
}
