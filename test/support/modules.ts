/**
 * Modules of this package, for processes of their own: built ones where the tests are built themselves (`npm test`), the
 * sources through a loader where they are run from the sources.
 */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

const ENDING = extname(import.meta.url)
const ROOT = new URL('../../', import.meta.url)

/** The arguments with which Node runs them. */
export const LOADER: readonly string[] = ENDING === '.ts' ? ['--import', import.meta.resolve('tsx')] : []

/** @param name from the package's folder, without its ending: `src/index` */
export function moduleUrl(name: string): string {
  return new URL(name + ENDING, ROOT).href
}

export function modulePath(name: string): string {
  return fileURLToPath(moduleUrl(name))
}

/** The ending of files of tests. */
export const TEST_ENDING = `.test${ENDING}`

/** The folder of the tests of a package, from its own folder. */
export const TEST_FOLDER = ENDING === '.ts' ? 'test' : 'dist/test'
