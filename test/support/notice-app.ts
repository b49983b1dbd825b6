/** An app whose users use tokens, and that keeps what it was told of them. */
import type { TestContext } from 'node:test'
import type { NoticedLimit, RateLimitOptions, RouteLimitOptions } from '../../src/index.js'
import { startApp, type TestApp } from './build-app.js'
import { type FakeClock, fakeClock } from './clock.js'
import type { TestDatabase } from './databases.js'

/** Noon, on the second. */
export const NOON_MS = Date.UTC(2026, 10, 22, 12)

export interface NoticeApp extends TestApp {
  /** What `onNotice` was called with. */
  readonly told: (readonly [client: string, limit: NoticedLimit, share: number])[]
  /** Makes a request that uses tokens, and returns its status. */
  use(tokens: number, user?: string): Promise<number>
}

export interface NoticeAppOptions {
  readonly limit?: Partial<RouteLimitOptions>
  readonly plugin?: RateLimitOptions
  readonly clock?: FakeClock
}

/** @param database undefined for an app that stores nothing in one */
export async function startNoticeApp(
  t: TestContext,
  database: TestDatabase | null,
  { limit, plugin = {}, clock = fakeClock(NOON_MS) }: NoticeAppOptions = {},
): Promise<NoticeApp> {
  const told: NoticeApp['told'] = []
  const started = await startApp(t, {
    database,
    clock,
    plugin: {
      user: ({ headers }) => ({ id: String(headers['x-user']) }),
      onNotice: (...notice) => told.push(notice),
      ...plugin,
      middleware: { defaultRate: '1000000/m', ...plugin.middleware },
    },
    routes(app) {
      const tokens = { name: 'tokens', rate: '1000/month', key: 'user', unit: 'tokens', noticeAt: '80,100' } as const
      app.get('/use', { onRequest: app.smartRateLimit.limit({ ...tokens, ...limit }) }, async (request) => {
        return app.smartRateLimit.charge(request, { tokens: Number(Object(request.query).tokens) })
      })
      app.get('/*', async (request, reply) => reply.code(Number(Object(request.query).status ?? 200)).send('ok'))
    },
  })
  return {
    ...started,
    told,
    use: async (tokens, user = 'alice') =>
      (await started.request(`/use?tokens=${tokens}`, { headers: { 'x-user': user } })).status,
  }
}
