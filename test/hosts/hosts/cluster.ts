/** Four workers of one server that share a SQLite file. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify'],
  isQuick: true,
  files: {
    'app.js': `
      import cluster from 'node:cluster'
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      if (cluster.isPrimary) {
        let listening = 0
        cluster.on('listening', (_worker, { port }) => ++listening === 4 && console.log('http://127.0.0.1:' + port))
        for (let count = 0; count < 4; count++) cluster.fork()
        process.on('SIGTERM', () => {
          for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM')
        })
      } else {
        const app = Fastify()
        await app.register(rateLimitPlugin, { logEvents: true, middleware: { defaultRate: '50/d' }, storeTimeoutMs: 20_000 })
        app.get('/', async () => process.pid)
        app.get('/events', { config: { smartRateLimit: false } }, async () => {
          await app.smartRateLimit.events.flush()
          return { ...app.smartRateLimit.events.stats(), pid: process.pid }
        })
        process.on('SIGTERM', () => app.close().then(() => process.exit()))
        await app.listen({ port: 0, host: '127.0.0.1' })
      }
    `,
    'count.js': `
      import { createRateLimitClient } from 'fastify-smart-ratelimit'
      const client = createRateLimitClient({ database: 'file:./ratelimit.db' })
      console.log(await client.rateLimitEvent.count(), await client.rateLimitEvent.count({ where: { allowed: true } }))
      await client.$disconnect()
    `,
  },
  async check({ start, run }) {
    const server = await start('node', ['app.js'])
    const answers = await Promise.all(
      Array.from({ length: 400 }, async () => {
        const response = await server.request('/', { headers: { connection: 'close' } })
        return { status: response.status, pid: await response.text() }
      }),
    )
    const allowed = answers.filter(({ status }) => status === 200)
    assert.equal(allowed.length, 50)
    assert.ok(answers.every(({ status }) => status === 200 || status === 429))
    const { status, output } = await server.stop()
    assert.equal(status, 0, output)
    const counted = await run('node', ['count.js'])
    assert.equal(counted.output.trim(), '400 50')
  },
}
