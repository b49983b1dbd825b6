import { createRequire } from 'node:module'
import { InvalidSettingError } from '../errors.js'

/** The first find-my-way that parses targets with a scheme as `request-path.ts` does. */
const MIN_ROUTER = [9, 9] as const

/**
 * Refuses an older router: a target such as `http://host?x=/login` would reach `/login` past its limit. Bundled code
 * has no version to read, and is not checked.
 *
 * @throws InvalidSettingError naming the remedy
 */
export function validateRouter(version = routerVersion()): void {
  const [major = 0, minor = 0] = version?.split('.').map(Number) ?? MIN_ROUTER
  if (major > MIN_ROUTER[0] || (major === MIN_ROUTER[0] && minor >= MIN_ROUTER[1])) return
  throw new InvalidSettingError(
    `Fastify's router find-my-way ${version} reads some request targets as other paths than limits do: run "npm update find-my-way", for ${MIN_ROUTER.join('.')} or later`,
  )
}

function routerVersion(): string | undefined {
  try {
    const requireFromFastify = createRequire(createRequire(import.meta.url).resolve('fastify'))
    const { version }: { version: string } = requireFromFastify('find-my-way/package.json')
    return version
  } catch {
    return undefined
  }
}
