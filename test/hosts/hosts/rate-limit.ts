/** A host that has @fastify/rate-limit too. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify', '@fastify/rate-limit'],
  isQuick: true,
  files: {
    'app.js': `
      import rateLimit from '@fastify/rate-limit'
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      const app = Fastify()
      const own = () => app.register(rateLimit, { max: 5, timeWindow: 3_600_000 })
      if (process.argv[2] === 'before') await own()
      const middleware = { backend: 'memory', defaultRate: '100/h', rateLimits: { '/strict/': '2/h' } }
      await app.register(rateLimitPlugin, { headers: 'none', middleware })
      if (process.argv[2] === 'after') await own()
      app.get('/*', async () => 'ok')
      app.get('/free', { config: { rateLimit: false } }, async () => 'ok')
      app.get('/alone', { config: { smartRateLimit: false, rateLimit: { max: 1 } } }, async () => 'ok')
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
  },
  async check({ start }) {
    for (const order of ['before', 'after']) {
      const server = await start('node', ['app.js', order])
      assert.equal((await server.request('/')).headers.get('x-ratelimit-limit'), '5', order)
      assert.deepEqual(await server.statuses(3, '/strict/x'), [200, 200, 429], order)
      assert.deepEqual((await server.statuses(8, '/')).at(-1), 429, order)
      assert.deepEqual(await server.statuses(8, '/free'), Array(8).fill(200), order)
      assert.deepEqual(await server.statuses(2, '/alone'), [200, 429], order)
      await server.stop()
    }
  },
}
