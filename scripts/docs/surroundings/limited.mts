/** The surroundings of samples after the plugin was registered: an app with limits, and its client. */
import { basename } from 'node:path'
import { rateLimitPlugin } from 'fastify-smart-ratelimit'
import { app } from './bare.mjs'

await app.register(rateLimitPlugin, {
  database: `file:./${basename(process.argv[1] ?? 'sample')}.db`,
  logEvents: true,
  useDynamicRules: true,
  user: (request) => (request.headers['x-user'] === undefined ? null : { id: String(request.headers['x-user']) }),
})

export { app }
export const { client } = app.smartRateLimit
