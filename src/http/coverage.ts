import type { FastifyInstance } from 'fastify'

/**
 * Warns of a plugin that hides the hook from the rest of the app: without `fastify-plugin` it has a scope of its own,
 * though its routes resemble all others. With a prefix, the limits are meant for the scope.
 */
export function warnOfScope(app: FastifyInstance): void {
  if (isRoot(app) || app.prefix !== '') return
  // The scope's own name comes first, before those of plugins registered in it.
  const [parent = ''] = app.pluginName.split(' -> ')
  app.log.warn(
    `Rate limits cover only the plugin that registers rateLimitPlugin (${parent}): 404s and routes outside of that plugin have no limit. Wrap that plugin in fastify-plugin, or register rateLimitPlugin on the app itself`,
  )
}

/** Returns whether the app is the root: a scope inherits from the app around it. */
function isRoot(app: FastifyInstance): boolean {
  return !('pluginName' in Object.getPrototypeOf(app))
}
