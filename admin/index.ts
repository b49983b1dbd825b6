import type { FastifyInstance } from 'fastify'
import { unloadablePeer } from '../src/ground/errors.js'
import { packagePath } from '../src/ground/package-root.js'
import type { LimitedApp } from '../src/plugin/smart-rate-limit.js'
import { type AdminOptions, validateAdminOptions } from './options.js'

export type { LimitedApp } from '../src/plugin/smart-rate-limit.js'
export type { AdminOptions } from './options.js'
export type { AdminResource } from './resources/resource.js'

/**
 * Registers the panel in which operators edit rules and overrides, below `rootPath`. Without `staff` and `isStaff` it
 * refuses all requests. It needs the packages adminjs and @adminjs/fastify.
 *
 * @throws InvalidSettingError for a wrong or unknown option, or when one of those packages is not installed
 */
export async function adminPlugin(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const rootPath = validateAdminOptions(options)
  await preparePeers()
  const { registerPanel } = await import('./panel.js')
  await registerPanel(app, rootPath, options)
}

/** The method of an AdminJS `ComponentLoader` that adds a component. */
export interface ComponentTarget {
  add(name: string, filePath: string): unknown
}

/**
 * Creates the panel's resources for the option `resources` of the host's own AdminJS. The host then controls access to
 * them, and protects them against forms of other sites. Only POST changes anything.
 *
 * @param app an app with `rateLimitPlugin`
 * @param componentLoader the loader of that AdminJS, which receives the components that the resources name
 * @throws InvalidSettingError when one of the packages of the panel is not installed
 */
export async function createAdminResources(app: LimitedApp, componentLoader: ComponentTarget) {
  await preparePeers()
  const { createResources } = await import('./resources/index.js')
  componentLoader.add(COMPONENT, packagePath('admin', 'components', `${COMPONENT}.js`))
  return createResources(app)
}

/** The name of the one component that the resources have. */
const COMPONENT = 'RateLimitInList'

const PEERS = ['adminjs', '@adminjs/fastify'] as const

/**
 * Loads the peers.
 *
 * @throws InvalidSettingError which names the peer that is not installed, or fails to import
 */
async function preparePeers(): Promise<void> {
  for (const peer of PEERS) {
    await import(peer).catch((error: unknown) => {
      throw unloadablePeer({ user: 'adminPlugin', name: peer, install: PEERS.join(' ') }, error)
    })
  }
}
