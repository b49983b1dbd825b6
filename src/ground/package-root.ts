import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A file that only this package has. */
const MARK = 'rules.schema.json'

// A CommonJS bundle has no URL.
const url: string | undefined = import.meta.url

/** Finds the folder of this package's `package.json`: sources and built files are at different depths below it. */
function findPackageRoot(): string | undefined {
  let folder = url === undefined ? '.' : dirname(fileURLToPath(url))
  while (!existsSync(join(folder, MARK))) {
    if (folder === dirname(folder)) return undefined
    folder = dirname(folder)
  }
  return folder
}

const found = findPackageRoot()

/** Whether the sources run, through a loader, as in this package's own tests. */
export const isSource = url?.endsWith('.ts') ?? false

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

/** Returns the path of a module of this package, such as `src/database/sqlite-worker`: of its source where that runs. */
export function modulePath(name: string): string {
  return isSource ? packagePath(`${name}.ts`) : packagePath('dist', `${name}.js`)
}

let require: ReturnType<typeof createRequire> | undefined

/** Loads a module or a package when it is first needed, where nothing can wait for an import. */
export function loadModule(name: string): unknown {
  require ??= createRequire(packagePath('package.json'))
  return require(name)
}
