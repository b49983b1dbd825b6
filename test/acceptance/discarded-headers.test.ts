/** A refusal is stored by no cache, and has nothing of the answer that was meant. So have the pages and the API. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { Store } from '../../src/index.js'
import { API, startWithApi } from '../support/api-app.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { createHttpClient } from '../support/http-client.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

/** What hooks of a host may have set before a request is refused. */
const MEANT = {
  'Accept-Ranges': 'bytes',
  Age: '5',
  'CDN-Cache-Control': 'max-age=300',
  'Cloudflare-CDN-Cache-Control': 'max-age=300',
  'Content-Digest': 'sha-256=:AAAA:',
  'Content-Disposition': 'attachment; filename="a.csv"',
  'Content-Encoding': 'gzip',
  'Content-Language': 'de',
  'Content-Length': '3',
  'Content-Location': '/a.csv',
  'Content-Range': 'bytes 0-2/3',
  'Content-Type': 'text/csv',
  'Edge-Control': 'cache-maxage=5m',
  ETag: '"a"',
  Expires: 'Thu, 31 Dec 2099 00:00:00 GMT',
  'Last-Modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
  'Surrogate-Control': 'max-age=300',
  'X-Accel-Expires': '300',
  'X-Accel-Redirect': '/private/a.csv',
}
/** What holds for any answer. */
const KEPT = { 'Access-Control-Allow-Origin': '*', 'Set-Cookie': 'a=b', Vary: 'Origin', 'X-Frame-Options': 'DENY' }

type Setter = (app: FastifyInstance) => void

const SETTERS: Readonly<Record<string, Setter>> = {
  'of the reply': (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.headers({ ...KEPT, ...MEANT, 'cache-control': 'public, max-age=300' })
    })
  },
  'of the response of Node': (app) => {
    app.addHook('onRequest', async (_request, { raw }) => {
      for (const [name, value] of Object.entries({ ...KEPT, ...MEANT, 'Cache-Control': 'public' })) {
        raw.setHeader(name, value)
      }
    })
  },
}

for (const [where, before] of Object.entries(SETTERS)) {
  for (const accept of ['*/*', 'application/problem+json']) {
    test(`no refusal keeps what a hook has set in the headers ${where}, with Accept: ${accept}`, async (t) => {
      const database = await openDatabase(t, 'sqlite')
      const { app, request } = await startApp(t, {
        database,
        plugin: {
          useDynamicRules: true,
          middleware: {
            backend: 'memory',
            defaultRate: '0/m',
            denyList: ['192.0.2.1'],
            rateLimits: { '/route': '9/m' },
          },
        },
        before,
        routes(scope) {
          scope.get('/*', async () => 'ok')
          scope.get('/route', { preHandler: scope.smartRateLimit.limit({ rate: '0/m' }) }, async () => 'ok')
        },
      })
      await app.smartRateLimit.client.rateLimitRule.create({
        data: { name: 'odd', pathPattern: '^/odd', rate: '0/m', refusalStatus: 499 },
      })
      const away = await startApp(t, {
        database: null,
        plugin: { onStoreError: 'deny', middleware: { backend: AWAY } },
        before,
      })
      const headers = { accept }
      const answers = [
        [429, await request('/', { headers })],
        [429, await request('/route', { headers })],
        [499, await request('/odd', { headers })],
        [403, await request('/', { headers, from: '192.0.2.1' })],
        [503, await away.request('/', { headers })],
      ] as const
      for (const [status, answer] of answers) assertNotStored(answer, status)
    })
  }
}

test('a host’s error handler finds a refusal that is not stored, and says otherwise where it wants to', async (t) => {
  const { request } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '0/m' } },
    before: SETTERS['of the reply'] ?? (() => undefined),
    routes(app) {
      app.setErrorHandler((_error, { url }, reply) => {
        if (url === '/its-own') reply.header('cache-control', 'private, max-age=1')
        return reply.code(429).send({ no: true })
      })
      app.get('/*', async () => 'ok')
    },
  })
  assertNotStored(await request('/'), 429)
  assert.equal((await request('/its-own')).headers['cache-control'], 'private, max-age=1')
})

test('neither the staff pages nor the API are stored, whatever the app says of all its answers', async (t) => {
  const before = SETTERS['of the reply'] ?? (() => undefined)
  const staff = await startWithStaff(t, 'sqlite', undefined, {}, before)
  assertNotStored(await staff.request(DASHBOARD, { headers: { accept: '*/*' } }), 403)
  const api = await startWithApi(t, 'sqlite', { before })
  const http = createHttpClient()
  assertNotStored(await http.request(api.port, `${API}/rules`, {}), 401)
  http.close()
})

const AWAY: Store = {
  concurrency: 1,
  check: () => Promise.reject(new Error('away')),
  reset: () => undefined,
  close: () => undefined,
}

function assertNotStored(
  { status, headers, text }: { status: number; headers: NodeJS.Dict<string | string[]>; text: string },
  expected: number,
): void {
  assert.equal(status, expected)
  assert.equal(headers['cache-control'], 'no-store')
  for (const [name, value] of Object.entries(MEANT)) assert.notEqual(headers[name.toLowerCase()], value, name)
  for (const name of Object.keys(KEPT)) assert.ok(headers[name.toLowerCase()], name)
  assert.equal(headers['content-length'], String(Buffer.byteLength(text)))
}
