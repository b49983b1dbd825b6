/** The plugins that most apps have, registered before the limits, which is the right order, and after them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Host, Server } from '../host.js'

const ORIGIN = 'https://shop.example'
const PREFLIGHT = { method: 'OPTIONS', headers: { origin: ORIGIN, 'access-control-request-method': 'GET' } }

export const host: Host = {
  packages: [
    'fastify',
    ...[
      'autoload',
      'compress',
      'cookie',
      'cors',
      'helmet',
      'http-proxy',
      'jwt',
      'session',
      'swagger',
      'under-pressure',
      'websocket',
    ].map((name) => `@fastify/${name}`),
  ],
  isQuick: true,
  files: {
    'app.js': `
      import { join } from 'node:path'
      import autoload from '@fastify/autoload'
      import compress from '@fastify/compress'
      import cookie from '@fastify/cookie'
      import cors from '@fastify/cors'
      import helmet from '@fastify/helmet'
      import proxy from '@fastify/http-proxy'
      import jwt from '@fastify/jwt'
      import session from '@fastify/session'
      import swagger from '@fastify/swagger'
      import underPressure from '@fastify/under-pressure'
      import websocket from '@fastify/websocket'
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import { dashboardPlugin } from 'fastify-smart-ratelimit/dashboard'

      const secret = 'a secret of at least thirty-two characters'
      const upstream = Fastify()
      upstream.get('/*', async () => 'upstream')
      const target = await upstream.listen({ port: 0, host: '127.0.0.1' })

      const app = Fastify({ logger: { level: 'warn', stream: process.stderr } })
      const limits = () => app.register(rateLimitPlugin, {
        logEvents: true,
        database: 'file:./' + process.argv[2] + '.db',
        middleware: { defaultRate: '1000/h', rateLimits: { '/strict/': '2/h', '/ws/none': '0/h' } },
      })
      if (process.argv[2] === 'after') await limits()
      await app.register(cors)
      await app.register(helmet)
      await app.register(compress, { threshold: 0 })
      await app.register(cookie)
      await app.register(session, { secret, cookie: { secure: false }, saveUninitialized: false })
      await app.register(jwt, { secret })
      await app.register(swagger, { openapi: {} })
      await app.register(underPressure, { exposeStatusRoute: '/status' })
      await app.register(websocket)
      if (process.argv[2] === 'before') await limits()
      await app.register(dashboardPlugin, { prefix: '/ops', isStaff: ({ session }) => session.isStaff === true })
      await app.register(proxy, { upstream: target, prefix: '/strict/proxy' })
      await app.register(autoload, { dir: join(import.meta.dirname, 'routes') })
      app.get('/ws/open', { websocket: true }, (socket) => socket.send('hello'))
      app.get('/ws/none', { websocket: true }, (socket) => socket.send('hello'))
      app.get('/openapi', async () => app.swagger())
      const verify = (request) => request.jwtVerify()
      const byUser = app.smartRateLimit.limit({ rate: '2/h', key: 'user' })
      app.get('/token/:id', async ({ params }) => app.jwt.sign({ id: params.id }))
      app.get('/mine', { onRequest: [verify, byUser] }, async ({ user }) => user.id)
      app.post('/sign-in', async ({ session }) => {
        session.isStaff = true
        return 'ok'
      })
      process.on('SIGTERM', () => app.close().then(() => upstream.close()))
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
    'routes/strict/index.js': `
      export default async function routes(app) {
        app.get('/', async () => 'ok')
        app.get('/large', async () => ({ text: 'x'.repeat(10_000) }))
      }
    `,
  },
  async check({ start }) {
    for (const order of ['before', 'after']) {
      const server = await start('node', ['app.js', order])
      await checkAnswers(server, order === 'before')
      await checkUsers(server)
      await checkStaff(server)
      await checkUpgrades(server)
      const { status, output } = await server.stop()
      assert.equal(status, 0, output)
      assert.doesNotMatch(output, /"level":[45]0/, order)
    }
  },
}

async function checkAnswers(server: Server, isRightOrder: boolean): Promise<void> {
  assert.deepEqual(await server.statuses(4, '/strict/large', PREFLIGHT), Array(4).fill(204))
  const large = await server.request('/strict/large', { headers: { origin: ORIGIN } })
  assert.equal(JSON.parse(await large.text()).text.length, 10_000)
  assert.ok(large.headers.has('content-encoding'))
  assert.equal(large.headers.get('x-ratelimit-remaining'), '1')
  const proxied = await server.request('/strict/proxy/x')
  assert.deepEqual([proxied.status, await proxied.text()], [200, 'upstream'])

  const refused = await server.request('/strict/', { headers: { origin: ORIGIN } })
  assert.deepEqual([refused.status, Object(await refused.json()).code], [429, 'FST_RATE_LIMIT_EXCEEDED'])
  assert.equal(refused.headers.has('access-control-allow-origin'), isRightOrder)
  assert.equal(refused.headers.has('content-security-policy'), isRightOrder)

  assert.deepEqual(await server.statuses(1, '/status'), [200])
  const { paths } = Object(await (await server.request('/openapi')).json())
  assert.deepEqual(
    Object.keys(paths).filter((path) => path.startsWith('/ops')),
    [],
  )
}

async function checkUsers(server: Server): Promise<void> {
  for (const id of ['7', '8']) {
    const authorization = `Bearer ${await (await server.request(`/token/${id}`)).text()}`
    assert.deepEqual(await server.statuses(3, '/mine', { headers: { authorization } }), [200, 200, 429])
  }
  assert.deepEqual(await server.statuses(1, '/mine'), [401])
}

async function checkStaff(server: Server): Promise<void> {
  assert.deepEqual(await server.statuses(1, '/ops/dashboard/'), [403])
  const signedIn = await server.request('/sign-in', { method: 'POST' })
  const [cookie = ''] = signedIn.headers.getSetCookie()
  const dashboard = await server.request('/ops/dashboard/', { headers: { cookie: cookie.split(';')[0] ?? '' } })
  assert.equal(dashboard.status, 200)
  assert.match(await dashboard.text(), /<style>/)
}

/** The refused one keeps its side of the connection open: the server has to end it, or it cannot close. */
async function checkUpgrades(server: Server): Promise<void> {
  let received = ''
  const open = requestUpgrade(server, '/ws/open')
  open.on('data', (chunk) => {
    received += String(chunk)
  })
  while (!received.endsWith('hello')) await once(open, 'data')
  open.destroy()
  assert.match(received, /^HTTP\/1\.1 101 /)
  let refused = ''
  const client = requestUpgrade(server, '/ws/none')
  for await (const chunk of client) refused += String(chunk)
  client.destroy()
  assert.match(refused, /^HTTP\/1\.1 429 /)
}

/** Node 20 has no client of WebSockets. */
function requestUpgrade(server: Server, path: string): Socket {
  const { port, hostname } = new URL(server.url)
  const client = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  client.setTimeout(10_000, () => client.destroy(new Error(`The connection of ${path} says nothing, and stays open`)))
  const head = [`GET ${path} HTTP/1.1`, `Host: ${hostname}`, 'Connection: Upgrade', 'Upgrade: websocket']
  client.write(
    `${[...head, 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='].join('\r\n')}\r\n\r\n`,
  )
  return client
}
