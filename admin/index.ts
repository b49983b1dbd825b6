import type { FastifyInstance } from 'fastify'
import type { AdminOptions } from './options.js'
import { checkOptions } from './options.js'
import { preparePeers } from './peers.js'

export type { AdminOptions } from './options.js'
export type { AdminResource } from './resources/resource.js'

/**
 * The panel in which operators edit rules and overrides, below `rootPath`. Without `staff` and `isStaff` it refuses
 * everybody. It needs the packages adminjs and @adminjs/fastify.
 *
 * @throws InvalidSettingError for a wrong or unknown option, or when one of those packages is not installed
 */
export async function adminPlugin(app: FastifyInstance, options: AdminOptions): Promise<void> {
  const rootPath = checkOptions(options)
  await preparePeers()
  const { registerPanel } = await import('./panel.js')
  await registerPanel(app, rootPath, options)
}

/** Of an AdminJS `ComponentLoader`, what adds a component. */
export interface ComponentTarget {
  add(name: string, filePath: string): unknown
}

/**
 * The resources of the panel for an AdminJS of the host's own: for its option `resources`. Who may see them is the
 * host's business then, and so is the protection against forms that other sites send. Only POST changes anything.
 *
 * @param app has `rateLimitPlugin`
 * @param componentLoader of that AdminJS: is given the components that the resources name
 * @throws InvalidSettingError when one of the packages of the panel is not installed
 */
export async function createAdminResources(app: FastifyInstance, componentLoader: ComponentTarget) {
  await preparePeers()
  const [{ createResources }, { componentFiles }] = await Promise.all([
    import('./resources/index.js'),
    import('./component-script.js'),
  ])
  for (const [name, file] of componentFiles()) {
    if (name.startsWith('RateLimit')) componentLoader.add(name, file)
  }
  return createResources(app)
}
