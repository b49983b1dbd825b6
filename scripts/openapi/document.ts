import Fastify from 'fastify'
import { apiPlugin, checkPlugin } from '../../src/api.js'
import { rateLimitPlugin } from '../../src/index.js'

const MOUNTS = { api: '/ratelimit/api', check: '/ratelimit/check' } as const

/** Returns the OpenAPI document that an app answers, of the API or of checks. */
export async function openApiDocument(of: keyof typeof MOUNTS): Promise<object> {
  // A busy machine may take longer to load the API than Fastify waits for a plugin.
  const app = Fastify({ pluginTimeout: 60_000 })
  await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
  const prefix = MOUNTS[of]
  if (of === 'api') await app.register(apiPlugin, { prefix, tokens: false, authorize: () => 'viewer' })
  else await app.register(checkPlugin, { prefix, tokens: false, authorize: () => 'checker' })
  const answer = await app.inject(`${prefix}/openapi.json`)
  await app.close()
  return answer.json()
}
