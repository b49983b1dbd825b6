/** An app with SQLite, events and rules in another runtime than Node. */
import assert from 'node:assert/strict'
import type { Host } from './host.js'

/**
 * @param packages the runtime, as npm packages
 * @param program the runtime's program, from the project's folder
 * @param args before the app's file
 */
export function runtimeHost(packages: readonly string[], program: () => string, args: readonly string[]): Host {
  return {
    packages: ['fastify', ...packages],
    files: {
      'app.js': `
        import process from 'node:process'
        import Fastify from 'fastify'
        import { rateLimitPlugin } from 'fastify-smart-ratelimit'
        import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
        const app = Fastify()
        const middleware = { defaultRate: '100/m', rateLimits: { '/auth/': '2/h' } }
        await app.register(rateLimitPlugin, { logEvents: true, useDynamicRules: true, middleware })
        await app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
        app.get('/*', async () => 'ok')
        app.get('/events', { config: { smartRateLimit: false } }, async () => {
          await app.smartRateLimit.events.flush()
          return app.smartRateLimit.client.rateLimitEvent.count()
        })
        app.post('/rules', ({ body }) => app.smartRateLimit.client.rateLimitRule.create({ data: body }))
        process.on('SIGTERM', () => app.close().then(() => process.exit()))
        console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
      `,
    },
    async check({ start }) {
      const server = await start(program(), [...args, 'app.js'])
      assert.equal((await server.request('/')).headers.get('x-ratelimit-limit'), '100')
      assert.deepEqual(await server.statuses(3, '/auth/x'), [200, 200, 429])
      const created = await server.request('/rules', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'early', pathPattern: '^/early', rate: '1/h' }),
      })
      assert.equal(created.status, 200, await created.text())
      assert.deepEqual(await server.statuses(2, '/early'), [200, 429])
      // The creation of the rule is a checked request too.
      assert.equal(await (await server.request('/events')).text(), '7')
      assert.equal((await server.request('/ops/dashboard/')).status, 200)
      const { status, output } = await server.stop()
      assert.equal(status, 0, output)
    },
  }
}
