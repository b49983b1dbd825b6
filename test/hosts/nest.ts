/** NestJS on Fastify, whose releases name one Fastify each. */
import assert from 'node:assert/strict'
import type { Host } from './host.js'

export function nestHost(version: number): Host {
  const packages = ['core', 'common', 'platform-fastify'].map((name) => `@nestjs/${name}@${version}`)
  return {
    packages: [...packages, 'reflect-metadata', 'rxjs'],
    files: {
      // Decorators are called by hand: Node runs it as it is.
      'app.js': `
        import 'reflect-metadata'
        import { Controller, Get, Module, Req } from '@nestjs/common'
        import { NestFactory } from '@nestjs/core'
        import { FastifyAdapter } from '@nestjs/platform-fastify'
        import { dashboardPlugin, rateLimitPlugin } from 'fastify-smart-ratelimit'
        class Orders {
          list() {
            return ['one']
          }
          fail() {
            throw new Error('broken')
          }
        }
        for (const [path, name] of [['orders', 'list'], ['fail', 'fail']]) {
          Get(path)(Orders.prototype, name, Object.getOwnPropertyDescriptor(Orders.prototype, name))
        }
        Controller()(Orders)
        class App {}
        Module({ controllers: [Orders] })(App)
        const app = await NestFactory.create(App, new FastifyAdapter({ logger: { level: 'warn' } }), { logger: ['error'] })
        app.enableCors()
        await app.register(rateLimitPlugin, { logEvents: true, middleware: { defaultRate: '4/h' } })
        await app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
        app.enableShutdownHooks()
        await app.listen(0, '127.0.0.1')
        console.log(await app.getUrl())
      `,
    },
    async check({ start }) {
      const server = await start('node', ['app.js'])
      const listed = await server.request('/orders', { headers: { origin: 'https://shop.example' } })
      assert.deepEqual([listed.status, await listed.json()], [200, ['one']])
      assert.equal(listed.headers.get('x-ratelimit-remaining'), '3')
      const preflight = {
        method: 'OPTIONS',
        headers: { origin: 'https://shop.example', 'access-control-request-method': 'GET' },
      }
      assert.deepEqual(await server.statuses(6, '/orders', preflight), Array(6).fill(204))
      assert.deepEqual(await server.statuses(1, '/fail'), [500])
      assert.deepEqual(await server.statuses(3, '/missing'), [404, 404, 429])
      const refused = await server.request('/orders')
      assert.equal(refused.status, 429)
      // Errors are in the form that NestJS gives them.
      assert.match(await refused.text(), /Rate limit exceeded, retry in/)
      assert.equal((await server.request('/ops/dashboard/')).status, 200)
      const { output } = await server.stop()
      assert.doesNotMatch(output, /"level":[45]0/)
    },
  }
}
