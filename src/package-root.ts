import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A file that only this package has. */
const MARK = 'rules.schema.json'

/** Finds the folder of this package's `package.json`: sources and built files are at different depths below it. */
function findPackageRoot(): string | undefined {
  // A CommonJS bundle has no URL.
  let folder = typeof import.meta.url === 'string' ? dirname(fileURLToPath(import.meta.url)) : '.'
  while (!existsSync(join(folder, MARK))) {
    if (folder === dirname(folder)) return undefined
    folder = dirname(folder)
  }
  return folder
}

const found = findPackageRoot()

export const PACKAGE_ROOT = found ?? ''

/**
 * Returns the path of a file of this package.
 *
 * @throws Error when the code runs from a bundle, which has no such files
 */
export function packagePath(...segments: readonly string[]): string {
  if (found === undefined) {
    throw new Error(
      'The files of fastify-smart-ratelimit are not beside its code, which was bundled: mark the package as external (esbuild: --external:fastify-smart-ratelimit), and install the package where the bundle runs',
    )
  }
  return join(found, ...segments)
}
