import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { warnAboutNode20 } from '../database/sqlite-driver.js'
import { Components } from '../ground/components.js'
import { InvalidSettingError } from '../ground/errors.js'
import { readPeers } from '../http/client-address.js'
import { validateRouter, warnOfScope, warnOfTrustedPeers } from '../http/host-app.js'
import { DECIDED_BY, DECISION, WAITED } from '../http/on-request.js'
import { REPLY } from '../http/request-reply.js'
import type { RouteConfig } from '../http/routes/route-config.js'
import { createDecoration } from './decoration.js'
import { attachParts, openParts, type Parts } from './parts.js'
import type { RateLimitOptions } from './settings/options.js'
import { resolveSettings, type Settings } from './settings/resolve.js'
import type { SmartRateLimit } from './smart-rate-limit.js'

declare module 'fastify' {
  interface FastifyInstance {
    smartRateLimit: SmartRateLimit
  }
  interface FastifyContextConfig {
    /**
     * `false` exempts the route from the limit, the event log and the headers; `{ cost: 5 }` makes requests cost 5;
     * `{ rate: '5/m' }` is a limit of its own, as `limit()` makes it.
     */
    smartRateLimit?: RouteConfig
  }
}

/** Limits requests, logs the decisions, and decorates the app with `smartRateLimit`. */
export const rateLimitPlugin: FastifyPluginAsync<RateLimitOptions> = fp(registerRateLimit, {
  fastify: '5.x',
  name: 'fastify-smart-ratelimit',
})

async function registerRateLimit(app: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (app.hasDecorator('smartRateLimit')) {
    throw new InvalidSettingError(
      'rateLimitPlugin is registered already, on this app or on one around it: remove one of the two registrations',
    )
  }
  warnAboutNode20()
  await registerWithSettings(app, resolveSettings(options, process.env))
}

/** Does what the plugin does, with settings that are resolved already. */
export async function registerWithSettings(app: FastifyInstance, settings: Settings): Promise<void> {
  const components = new Components(app.log)
  app.addHook('onReady', () => components.start())
  app.addHook('onClose', () => components.close())
  const parts = await openParts({ app, settings, components })
  await addHooks(parts)
  const decoration = createDecoration(parts)
  app.decorate('smartRateLimit', decoration)
  attachParts(decoration, parts)
}

async function addHooks({ app, settings, components, counters, hook }: Parts): Promise<void> {
  app.addHook('onRoute', hook.noteRoute)
  counters.addNotFound(app)
  app.addHook('onRegister', (scope) => counters.addNotFound(scope))
  app.decorateRequest(DECISION, null)
  app.decorateRequest(DECIDED_BY, null)
  app.decorateRequest(WAITED, 0)
  app.decorateRequest(REPLY, null)
  if (!settings.enabled) return
  validateRouter()
  warnOfTrustedPeers(app)
  await components.prepare()
  readPeers(app.server)
  if (settings.hook !== 'onRequest') app.addHook('onRequest', hook.keepReply)
  app.addHook(settings.hook, hook.onRequest)
  app.addHook('onReady', async () => {
    warnOfScope(app)
    hook.warnOfForeignLimits()
  })
}
