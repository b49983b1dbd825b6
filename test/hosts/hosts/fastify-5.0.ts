/** The oldest Fastify 5, and the last one that takes a number of hops as trustProxy. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify@5.0.0', 'fastify-5-12-0@npm:fastify@5.12.0', 'fastify-today@npm:fastify@5'],
  isQuick: true,
  files: {
    'app.js': `
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
      const { default: Fastify } = await import(process.argv[2])
      const trustProxy = process.argv[3] === 'list' ? ['127.0.0.1'] : 1
      const app = Fastify({ trustProxy, logger: { level: 'warn' } })
      await app.register(rateLimitPlugin, { middleware: { backend: 'memory', defaultRate: '2/h' } })
      await app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
      app.get('/*', async ({ ip }) => ip)
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
  },
  async check({ start }) {
    for (const [fastify, trustProxy, isWarned, isTrusted] of [
      ['fastify', 'list', false, true],
      ['fastify', 'number', true, true],
      ['fastify-5-12-0', 'number', true, true],
      ['fastify-today', 'number', false, false],
    ] as const) {
      const server = await start('node', ['app.js', fastify, trustProxy])
      const name = `${fastify} ${trustProxy}`
      assert.equal(/address that clients may choose: Fastify 5\./.test(server.output()), isWarned, name)
      assert.deepEqual(await server.statuses(3, '/'), [200, 200, 429], name)
      const from = { headers: { 'x-forwarded-for': '203.0.113.9' } }
      assert.deepEqual(await server.statuses(1, '/', from), [isTrusted ? 200 : 429], name)
      assert.equal((await server.request('/ops/dashboard/')).status, 200, name)
      await server.stop()
    }
  },
}
