/** The demo's shop at one moment, for pictures of its pages. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { dashboardPlugin } from '../../src/dashboard.js'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import { rateLimitPlugin } from '../../src/index.js'
import { demoRoutes, demoUser, tellDemoPast } from '../example/demo.js'

/** The time of the pages. */
export const NOW_MS = Date.UTC(2026, 10, 21, 14, 32)
export const DASHBOARD = '/ratelimit/dashboard/'

export interface PicturedShop {
  readonly app: FastifyInstance
  readonly origin: string
  now(): number
  passMinute(): void
  close(): Promise<void>
}

/** Starts the shop, with a database of its own. */
export async function startPicturedShop(): Promise<PicturedShop> {
  const folder = await mkdtemp(join(tmpdir(), 'pictures-'))
  const app = Fastify({ trustProxy: ['127.0.0.1'] })
  let nowMs = NOW_MS
  await app.register(rateLimitPlugin, {
    database: `file:${join(folder, 'shop.db')}`,
    logEvents: true,
    useDynamicRules: true,
    user: demoUser,
    clock: { now: () => nowMs },
  })
  await app.register(dashboardPlugin, { prefix: '/ratelimit', isStaff: () => ({ actor: 'alice', role: 'admin' }) })
  await app.register(demoRoutes)
  await tellDemoPast(app, '100/m', NOW_MS)
  return {
    app,
    origin: await app.listen({ port: 0, host: '127.0.0.1' }),
    now: () => nowMs,
    passMinute() {
      nowMs += MINUTE_MS
    },
    async close() {
      await app.close()
      await rm(folder, { recursive: true })
    },
  }
}
