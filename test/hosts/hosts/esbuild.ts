/** A server that esbuild bundles: with the package as external, and with all of it in one file. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

const FORMATS = [
  [
    'esm',
    'mjs',
    'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
  ],
  ['cjs', 'cjs', ''],
] as const

export const host: Host = {
  packages: ['fastify', 'esbuild'],
  files: {
    'app.js': `
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
      async function serve() {
        const app = Fastify()
        await app.register(rateLimitPlugin, { middleware: { backend: process.env.BACKEND, defaultRate: '2/h' } })
        if (process.env.DASHBOARD) await app.register(dashboardPlugin)
        app.get('/', async () => 'ok')
        console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
      }
      serve().catch((error) => {
        console.error(error)
        process.exit(1)
      })
    `,
  },
  async check({ run, start }) {
    const common = ['app.js', '--bundle', '--platform=node', '--log-level=warning']
    for (const [format, ending, banner] of FORMATS) {
      const options = [...common, `--format=${format}`, `--banner:js=${banner}`]
      const external = await run('esbuild', [
        ...options,
        '--external:fastify-smart-ratelimit',
        `--outfile=external.${ending}`,
      ])
      assert.equal(external.status, 0, external.output)
      const file = { RATELIMIT_DATABASE_URL: `file:./${format}.db` }
      for (const env of [{ BACKEND: 'database', DASHBOARD: '1', ...file }, { BACKEND: 'memory' }]) {
        const server = await start('node', [`external.${ending}`], { env })
        assert.deepEqual(await server.statuses(3, '/'), [200, 200, 429])
        await server.stop()
      }

      const optional = ['ioredis', 'prom-client', '@opentelemetry/api', 'pg-native', 'better-sqlite3*']
      const whole = await run('esbuild', [
        ...options,
        ...optional.map((name) => `--external:${name}`),
        '--loader:.node=copy',
        `--outfile=whole.${ending}`,
      ])
      assert.equal(whole.status, 0, whole.output)
      const server = await start('node', [`whole.${ending}`], { env: { BACKEND: 'memory' } })
      assert.deepEqual(await server.statuses(3, '/'), [200, 200, 429])
      await server.stop()
      for (const env of [
        { BACKEND: 'database', ...file },
        { BACKEND: 'memory', DASHBOARD: '1' },
      ]) {
        const { status, output } = await run('node', [`whole.${ending}`], { env })
        assert.equal(status, 1, output)
        assert.match(output, /was bundled: .*--external:fastify-smart-ratelimit/, format)
      }
    }
  },
}
