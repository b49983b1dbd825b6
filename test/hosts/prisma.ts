/** Hosts that use Prisma themselves: their client and that of the package share a process, and maybe a database. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Host } from './host.js'

const SERVER = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'

export interface PrismaHost {
  readonly version: 6 | 7
  readonly provider: 'sqlite' | 'postgresql'
  /** What the client is made with, and where that comes from. */
  readonly adapter: { readonly name: string; readonly module: string; readonly options: string }
}

export function prismaHost({ version, provider, adapter }: PrismaHost): Host {
  const url = version === 6 ? '\n  url = env("HOST_DATABASE_URL")' : ''
  const engine = version === 6 ? '\n  engineType = "client"' : ''
  return {
    packages: ['fastify', 'pg', `prisma@${version}`, `@prisma/client@${version}`, `${adapter.module}@${version}`],
    files: {
      'schema.prisma': `
generator client {
  provider = "prisma-client-js"${engine}
}
datasource db {
  provider = "${provider}"${url}
}
model Order {
  id   Int    @id @default(autoincrement())
  text String
}
      `,
      'app.js': `
        import { ${adapter.name} } from '${adapter.module}'
        import { PrismaClient } from '@prisma/client'
        import Fastify from 'fastify'
        import { migrate, rateLimitPlugin } from 'fastify-smart-ratelimit'
        import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'
        const url = process.env.HOST_DATABASE_URL
        const prisma = new PrismaClient({ adapter: new ${adapter.name}(${adapter.options}) })
        const id = '${provider === 'sqlite' ? 'INTEGER PRIMARY KEY AUTOINCREMENT' : 'SERIAL PRIMARY KEY'}'
        await prisma.$executeRawUnsafe('CREATE TABLE IF NOT EXISTS "Order" (id ' + id + ', text TEXT NOT NULL)')
        const database = process.env.LIMITS_DATABASE_URL
        await migrate({ database })
        const app = Fastify()
        const middleware = { defaultRate: '100/m', rateLimits: { '/strict/': '2/h' } }
        await app.register(rateLimitPlugin, { database, logEvents: true, useDynamicRules: true, middleware })
        await app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
        app.get('/*', async () => 'ok')
        app.post('/orders', async () => {
          // A transaction of the host's that fails takes nothing of the limits with it.
          await prisma.$transaction(async (transaction) => {
            await transaction.order.create({ data: { text: 'lost' } })
            await app.smartRateLimit.client.rateLimitRule.create({
              data: { name: 'kept', pathPattern: '^/kept', rate: '1/h' },
            })
            throw new Error('rolled back')
          }).catch(() => undefined)
          await prisma.order.create({ data: { text: 'kept' } })
          return prisma.order.count()
        })
        process.on('SIGTERM', async () => {
          await app.close()
          await prisma.$disconnect()
        })
        console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
      `,
    },
    async check(project) {
      // Generating a client needs no engine of these, but would download them.
      const engines = {
        PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
        PRISMA_QUERY_ENGINE_LIBRARY: process.execPath,
        HOST_DATABASE_URL: 'file:./host.db',
      }
      const generated = await project.run('prisma', ['generate', '--schema', 'schema.prisma'], { env: engines })
      assert.equal(generated.status, 0, generated.output)
      if (provider === 'sqlite') {
        await checkApp(project, 'file:./host.db', 'file:./ratelimit.db')
        assert.ok(existsSync(join(project.folder, 'ratelimit.db')))
      } else {
        await withDatabase((shared) => checkApp(project, shared, shared))
      }
    },
  }
}

async function checkApp({ start }: Parameters<Host['check']>[0], hosts: string, limits: string): Promise<void> {
  const env = { HOST_DATABASE_URL: hosts, LIMITS_DATABASE_URL: limits }
  const server = await start('node', ['app.js'], { env })
  assert.deepEqual(await server.statuses(3, '/strict/x'), [200, 200, 429])
  const ordered = await server.request('/orders', { method: 'POST' })
  assert.deepEqual([ordered.status, await ordered.text()], [200, '1'])
  assert.deepEqual(await server.statuses(2, '/kept'), [200, 429])
  assert.equal((await server.request('/ops/dashboard/')).status, 200)
  const { status, output } = await server.stop()
  assert.equal(status, 0, output)
}

/** Makes a database for one check, and drops it. */
async function withDatabase(check: (url: string) => Promise<void>): Promise<void> {
  const client = new pg.Client(SERVER)
  await client.connect()
  const name = `ratelimit_host_${process.pid}`
  try {
    await client.query(`CREATE DATABASE ${name}`)
    const url = new URL(SERVER)
    url.pathname = `/${name}`
    await check(url.href)
  } finally {
    await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await client.end()
  }
}
