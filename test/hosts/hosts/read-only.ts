/** A server whose disk takes no writes, as in a container with a read-only file system. */
import assert from 'node:assert/strict'
import { chmod } from 'node:fs/promises'
import type { Host } from '../host.js'

/** An account without rights; root writes wherever it likes. */
const STRANGER = 65_534

export const host: Host = {
  packages: ['fastify'],
  isQuick: true,
  files: {
    'app.js': `
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
      const app = Fastify()
      await app.register(rateLimitPlugin, JSON.parse(process.env.SETTINGS))
      if (process.env.DASHBOARD) await app.register(dashboardPlugin)
      app.get('/', async () => 'ok')
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
  },
  async check({ folder, start, run }) {
    const user = process.getuid?.() === 0 ? { uid: STRANGER } : {}
    await chmod(folder, 0o555)
    try {
      const settings = { middleware: { backend: 'memory', defaultRate: '1/h' } }
      const server = await start('node', ['app.js'], { ...user, env: { SETTINGS: JSON.stringify(settings) } })
      assert.deepEqual(await server.statuses(2, '/'), [200, 429])

      const refused = await run('node', ['app.js'], { ...user, env: { SETTINGS: '{}' } })
      assert.notEqual(refused.status, 0)
      assert.match(refused.output, /ratelimit\.db/)
    } finally {
      await chmod(folder, 0o755)
    }
  },
}
