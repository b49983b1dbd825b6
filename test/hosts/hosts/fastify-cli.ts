/** Apps as fastify-cli generates them: the app is a plugin, which has a scope of its own unless it is wrapped. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify', 'fastify-cli', 'fastify-plugin', '@fastify/autoload'],
  files: {
    'app.js': `
      import { join } from 'node:path'
      import AutoLoad from '@fastify/autoload'
      export default async function app(fastify, _options) {
        fastify.register(AutoLoad, { dir: join(import.meta.dirname, 'plugins') })
        fastify.register(AutoLoad, { dir: join(import.meta.dirname, 'routes') })
      }
    `,
    'wrapped.js': `
      import fp from 'fastify-plugin'
      import app from './app.js'
      export default fp(async (fastify, options) => app(fastify, options))
    `,
    'plugins/limits.js': `
      import fp from 'fastify-plugin'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      export default fp(async (fastify) => {
        fastify.register(rateLimitPlugin, { middleware: { backend: 'memory', defaultRate: '2/h' } })
      })
    `,
    'routes/example/index.js': `
      export default async function routes(fastify) {
        fastify.get('/', async () => 'ok')
      }
    `,
  },
  async check({ start }) {
    for (const [app, isWarned, missing] of [
      ['app.js', true, [404, 404, 404]],
      ['wrapped.js', false, [404, 404, 429]],
    ] as const) {
      const env = { FASTIFY_PORT: '0', FASTIFY_ADDRESS: '127.0.0.1' }
      const server = await start('fastify', ['start', '--log-level=info', app], { env })
      assert.equal(/Rate limits cover only the plugin/.test(server.output()), isWarned, app)
      assert.deepEqual(await server.statuses(3, '/missing'), missing, app)
      const refused = await server.request('/example')
      assert.equal(refused.status, isWarned ? 200 : 429, app)
      await server.stop()
    }
  },
}
