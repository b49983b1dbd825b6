/** Apps in processes of their own, in which an optional peer may look as if it were not installed. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from './at-end.js'
import { LOADER, moduleUrl } from './modules.js'

const run = promisify(execFile)
const TIMEOUT_MS = 60_000

/** A module that makes packages look as if they were not installed. */
function without(names: readonly string[]): string {
  return replacing(
    names,
    `throw Object.assign(new Error("Cannot find package '" + specifier + "'"), { code: 'ERR_MODULE_NOT_FOUND' })`,
  )
}

/** A module that makes a package fail to import, since a dependency of its own is not installed. */
function broken(name: string): string {
  return replacing(
    [name],
    `throw Object.assign(new Error("Cannot find package 'some-dependency' imported from " + specifier), { code: 'ERR_MODULE_NOT_FOUND' })`,
  )
}

/** @param instead what is done instead of finding one of the packages */
function replacing(names: readonly string[], instead: string): string {
  const hooks = `
    export async function resolve(specifier, context, next) {
      if (!${JSON.stringify(names)}.includes(specifier)) return next(specifier, context)
      ${instead}
    }
  `
  const register = `
    import { register } from 'node:module'
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)})
  `
  return `data:text/javascript,${encodeURIComponent(register)}`
}

/**
 * Runs apps with these settings, each of which answers one request and closes, in a process and a folder of their own.
 *
 * @param missing packages that are not to be found
 * @returns what they printed, which is the code and the message of one that did not start, and the files that they left
 */
export function runApps(t: TestContext, apps: readonly object[], ...missing: readonly string[]) {
  const program = `
    import Fastify from ${JSON.stringify(import.meta.resolve('fastify'))}
    import { rateLimitPlugin } from ${JSON.stringify(moduleUrl('src/index'))}
    for (const settings of ${JSON.stringify(apps)}) {
      const app = Fastify()
      try {
        await app.register(rateLimitPlugin, settings)
        const { headers } = await app.inject('/')
        console.log('remaining', headers['x-ratelimit-remaining'])
      } catch (error) {
        console.log(error.code, error.message)
      }
      await app.close()
    }
  `
  return runProgram(t, program, { missing })
}

export interface ProgramOptions {
  /** Packages that are not to be found. */
  readonly missing?: readonly string[]
  /** The package that is found and fails to import. */
  readonly failing?: string | undefined
  readonly env?: NodeJS.ProcessEnv | undefined
}

/** @returns what it printed, and the files that it left in its working directory */
export async function runProgram(
  t: TestContext,
  program: string,
  { missing = [], failing, env = {} }: ProgramOptions = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-peers-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  const imports = [
    ...(missing.length === 0 ? [] : [without(missing)]),
    ...(failing === undefined ? [] : [broken(failing)]),
  ]
  const args = [...LOADER, ...imports.flatMap((url) => ['--import', url])]
  const { stdout } = await run(process.execPath, [...args, '--input-type=module', '--eval', program], {
    cwd: folder,
    env: { ...process.env, ...env },
    timeout: TIMEOUT_MS,
  })
  return { stdout, files: await readdir(folder) }
}
