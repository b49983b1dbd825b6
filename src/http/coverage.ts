import type { FastifyInstance } from 'fastify'

/**
 * Warns of a plugin that hides the hook from the rest of the app: one that was not wrapped in `fastify-plugin` has a
 * scope of its own, though its routes look like all others. With a prefix the scope is what the limits are meant for.
 */
export function warnOfScope(app: FastifyInstance): void {
  if (isRoot(app) || app.prefix !== '') return
  // The names of what was registered in the scope follow its own.
  const [parent = ''] = app.pluginName.split(' -> ')
  app.log.warn(
    `Rate limits cover only the plugin that registers rateLimitPlugin (${parent}): 404s and routes outside of that plugin have no limit. Wrap that plugin in fastify-plugin, or register rateLimitPlugin on the app itself`,
  )
}

/** A scope inherits from the app around it. */
function isRoot(app: FastifyInstance): boolean {
  return !('pluginName' in Object.getPrototypeOf(app))
}
