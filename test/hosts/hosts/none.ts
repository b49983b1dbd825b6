/** A host that uses no database of its own, as the documentation sets it up. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify'],
  isQuick: true,
  files: {
    'app.js': `
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
      const app = Fastify()
      const middleware = { defaultRate: '100/m', rateLimits: { '/auth/': '2/h' } }
      await app.register(rateLimitPlugin, { logEvents: true, useDynamicRules: true, middleware })
      await app.register(dashboardPlugin, { prefix: '/ratelimit', isStaff: ({ headers }) => headers['x-staff'] === 'yes' })
      app.get('/*', async () => 'ok')
      app.post('/rules', ({ body }) => app.smartRateLimit.client.rateLimitRule.create({ data: body }))
      process.on('SIGTERM', () => app.close())
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
  },
  async check({ folder, start, run }) {
    const server = await start('node', ['app.js'])
    assert.equal((await server.request('/')).headers.get('x-ratelimit-limit'), '100')
    assert.deepEqual(await server.statuses(3, '/auth/x'), [200, 200, 429])
    const rule = { name: 'early', pathPattern: '^/early', rate: '1/h' }
    const created = await server.request('/rules', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(rule),
    })
    assert.equal(created.status, 200, await created.text())
    assert.deepEqual(await server.statuses(2, '/early'), [200, 429])
    assert.equal((await server.request('/ratelimit/dashboard/')).status, 403)
    const dashboard = await server.request('/ratelimit/dashboard/', { headers: { 'x-staff': 'yes' } })
    assert.equal(dashboard.status, 200)
    assert.match(await dashboard.text(), /early/)
    const { status, output } = await server.stop()
    assert.equal(status, 0, output)
    assert.ok(existsSync(join(folder, 'ratelimit.db')))

    const health = await run('ratelimit', ['health'])
    assert.equal(health.status, 0, health.output)
    assert.match(health.output, /1 active rule/)
  },
}
