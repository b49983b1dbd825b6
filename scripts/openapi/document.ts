import { createHash } from 'node:crypto'
import Fastify from 'fastify'
import { apiPlugin } from '../../src/api.js'
import { rateLimitPlugin } from '../../src/index.js'

const MOUNT = '/ratelimit/api'

/** Returns the OpenAPI document that an app with the API answers. */
export async function openApiDocument(): Promise<object> {
  // A busy machine may take longer to load the API than Fastify waits for a plugin.
  const app = Fastify({ pluginTimeout: 60_000 })
  await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
  await app.register(apiPlugin, { prefix: MOUNT, tokens: false, authorize: () => 'viewer' })
  const answer = await app.inject(`${MOUNT}/openapi.json`)
  await app.close()
  return answer.json()
}

/** Returns a hash of what a client is generated from. */
export function documentHash(document: object): string {
  const { paths, components }: { paths?: unknown; components?: unknown } = document
  return createHash('sha256').update(JSON.stringify({ paths, components })).digest('hex')
}
