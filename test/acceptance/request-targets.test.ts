/** Whatever a client sends as the target of a request: what reaches a route has met its limit. */
import assert from 'node:assert/strict'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { createRandom } from '../../scripts/random.js'
import { quotedName } from '../../src/http/policy-names.js'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import { atEnd } from '../support/at-end.js'
import { portOf } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { connectHttp2, HTTP2, sendRaw } from '../support/http-client.js'
import { createTargets } from '../support/request-targets.js'

const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
/** `TEST_TARGETS` asks for more. */
const TARGETS = Number(process.env.TEST_TARGETS ?? 1_000)
const TARGETS_OVER_SOCKETS = 40

interface LimitedRoute {
  readonly url: string
  /** Paths that reach it. */
  readonly paths: readonly string[]
  readonly pattern: string
  /** Its own one of `rateLimits`; that of `/` otherwise. */
  readonly prefix?: string
  readonly priority?: number
}

const CATCH_ALL = '*'
const SKIPPED = '/health'
const HAS_PATH = /^(?:\/|https?:\/\/)/i

const ROUTES: readonly LimitedRoute[] = [
  { url: '/', paths: ['/'], pattern: '^/$' },
  { url: '/login', paths: ['/login'], pattern: '^/login$', prefix: '/login' },
  { url: '/Admin/Panel', paths: ['/Admin/Panel'], pattern: '^/Admin/Panel$', prefix: '/Admin/Panel' },
  { url: '/users/:id', paths: ['/users/7', '/users/'], pattern: '^/users/[^/]*$', prefix: '/users/' },
  { url: '/files/*', paths: ['/files/a/b', '/files/c'], pattern: '^/files/', prefix: '/files/' },
  { url: '/api*', paths: ['/api', '/apix', '/api/x'], pattern: '^/api' },
  { url: '/items/:id(^\\d+$)', paths: ['/items/12'], pattern: '^/items/\\d+$', prefix: '/items/' },
  { url: '/v:major-:minor', paths: ['/v1-2', '/v-'], pattern: '^/v[^/]*-[^/]*$' },
  { url: '/ad/:name', paths: ['/ad/x'], pattern: '^/ad/[^/]*$', prefix: '/ad' },
  { url: '/straße', paths: ['/straße'], pattern: '^/straße$', prefix: '/straße' },
  { url: '/İz', paths: ['/İz'], pattern: '^/İz$', prefix: '/İz' },
  { url: '/a b', paths: ['/a%20b'], pattern: '^/a b$', prefix: '/a b' },
  { url: '/50%', paths: ['/50%25'], pattern: '^/50%25$', prefix: '/50%25' },
  { url: '/:tenant/login', paths: ['/acme/login', '/x/login'], pattern: '^/[^/]*/login$', priority: -1 },
  { url: CATCH_ALL, paths: ['/else', '/else/login/x'], pattern: '^/', priority: -2 },
]

const ROUTER_OPTIONS = ['caseSensitive', 'ignoreTrailingSlash', 'ignoreDuplicateSlashes', 'useSemicolonDelimiter']

/** Every combination of what decides which spellings reach a route; half of them compiled, half with a catch-all route. */
const ROUTERS = Array.from({ length: 16 }, (_, bits) => {
  const isOn = ROUTER_OPTIONS.map((_option, place) => Boolean(bits & (1 << place)))
  const routerOptions = Object.fromEntries(ROUTER_OPTIONS.map((option, place) => [option, isOn[place]]))
  const hasCatchAll = isOn.filter(Boolean).length % 2 === 0
  const compile = isOn[1] !== isOn[2]
  return {
    routerOptions: { ...routerOptions, compile },
    routes: hasCatchAll ? ROUTES : ROUTES.filter(({ url }) => url !== CATCH_ALL),
    called: `${JSON.stringify(routerOptions)}${compile ? ', compiled' : ''}${hasCatchAll ? ', with a route *' : ''}`,
  }
})

describe('whatever reaches a route has met its limit', () => {
  let database: TestDatabase
  before(async () => {
    database = await openTestDatabase('sqlite')
    const { rateLimitRule, rateLimitOverride } = database.client
    for (const { url, pattern: pathPattern, priority = 0 } of ROUTES) {
      await rateLimitRule.create({ data: { name: ruleFor(url), pathPattern, method: 'POST', rate: '0/m', priority } })
      await rateLimitOverride.create({ data: { client: `ip:${deniedAt(url)}`, effect: 'deny', pathPattern } })
    }
  })
  after(() => database.close())

  for (const [place, { routerOptions, routes, called }] of ROUTERS.entries()) {
    const paths = [...routes.flatMap((route) => route.paths), SKIPPED]

    test(`with ${called}: of ${TARGETS} targets`, async (t) => {
      t.diagnostic(`seed ${seed} (TEST_SEED)`)
      const { app, reached } = await startLimited(t, database, routes, { routerOptions })
      // The first request waits for the rules.
      await app.inject('/')
      const target = createTargets(createRandom(seed + place), paths)
      const times = new Map(routes.map(({ url }) => [url, 0]))
      const client = socketFrom('203.0.113.1')
      const deniedClients = new Map(routes.map(({ url }) => [url, socketFrom(deniedAt(url))]))
      let withoutSlash = 0
      reached.length = 0
      for (let made = 0; made < TARGETS; made++) {
        const asked = target()
        exchange(app, 'GET', asked, client)
        const route = reached.at(-1)
        if (route === undefined) continue
        times.set(route, (times.get(route) ?? 0) + 1)
        if (!HAS_PATH.test(asked)) withoutSlash++
        exchange(app, 'POST', asked, client)
        const denied = deniedClients.get(route)
        if (denied !== undefined) exchange(app, 'GET', asked, denied)
        reached.length = 0
      }
      for (const [url, count] of times) assert.ok(count >= 3, `${url} was reached ${count} times`)
      assert.ok(withoutSlash >= 30, `${withoutSlash} had no slash`)
    })

    test(`with ${called}: of ${TARGETS_OVER_SOCKETS} targets over HTTP/1.0, HTTP/1.1 and HTTP/2 each`, async (t) => {
      t.diagnostic(`seed ${seed} (TEST_SEED)`)
      const target = createTargets(createRandom(seed - place), paths)
      const one = await startLimited(t, database, routes, { routerOptions })
      const two = await startLimited(t, database, routes, { routerOptions, ...HTTP2 })
      for (const { app } of [one, two]) await app.listen({ port: 0, host: '127.0.0.1' })
      const session = connectHttp2(portOf(two.app))
      atEnd(t, session.close)
      for (let made = 0; made < TARGETS_OVER_SOCKETS; made++) {
        for (const version of ['1.0', '1.1'])
          await sendRaw(portOf(one.app), `GET ${target()} HTTP/${version}\r\nHost: a`)
        await session.send({ ':path': target(), ':scheme': made % 4 === 0 ? 'http' : 'x' })
      }
      assert.ok(one.reached.length >= TARGETS_OVER_SOCKETS / 2, `${one.reached.length} over HTTP/1`)
      assert.ok(two.reached.length >= TARGETS_OVER_SOCKETS / 4, `${two.reached.length} over HTTP/2`)
    })
  }
})

function ruleFor(url: string): string {
  return `rule-${ROUTES.findIndex((route) => route.url === url)}`
}

/** The client that has a denying override for a route. */
function deniedAt(url: string): string {
  return `198.51.100.${ROUTES.findIndex((route) => route.url === url)}`
}

/** Starts an app whose every route has a limit of 0, one of each kind, but for a route that is skipped. */
async function startLimited(
  t: TestContext,
  { client }: TestDatabase,
  routes: readonly LimitedRoute[],
  options: FastifyServerOptions,
) {
  const app = Fastify({ ...options, forceCloseConnections: true })
  /** The routes of the requests that had one. */
  const reached: string[] = []
  const violations: string[] = []
  /** The requests for which hooks ran: some that are malformed get to a handler of 404s without any. */
  const checked = new WeakSet<object>()
  const handled = new WeakSet<object>()
  atEnd(t, async () => {
    await app.close()
    assert.deepEqual(violations.slice(0, 10), [])
  })

  app.addHook('onRequest', ({ raw, routeOptions: { url } }, _reply, done) => {
    if (url !== undefined) reached.push(url)
    checked.add(raw)
    done()
  })
  app.addHook('onSend', ({ method, raw, ip, routeOptions: { url: route } }, reply, _payload, done) => {
    done()
    if (!checked.has(raw)) return
    const target = raw.url ?? ''
    // A denial, here by an override, advertises no policy.
    const policy = reply.statusCode === 403 ? '"override"' : reply.getHeader('ratelimit-policy')
    const isMet = policy === undefined ? maySkip(route, target) : isExpected(routes, route, method, ip, String(policy))
    if (isMet && handled.has(raw) === (policy === undefined && route !== undefined)) return
    violations.push(`${method} ${JSON.stringify(target)} reached ${route}, held to ${policy}`)
  })
  await app.register(rateLimitPlugin, {
    database: client,
    clock: fakeClock(),
    headers: 'draft',
    useDynamicRules: true,
    middleware: {
      backend: 'memory',
      defaultRate: '1000000/m',
      rateLimits: Object.fromEntries(routes.map(({ prefix = '/' }) => [prefix, '0/m'])),
      skipPaths: [SKIPPED],
    },
  })
  for (const url of [...routes.map((route) => route.url), SKIPPED]) {
    app.route({
      method: ['GET', 'POST'],
      url,
      handler: ({ raw }, reply) => {
        handled.add(raw)
        reply.send('')
      },
    })
  }
  return { app, reached }
}

/** Whether a request may have been held to nothing: below the path that is skipped there is no route but the catch-all. */
function maySkip(route: string | undefined, target: string): boolean {
  if (route === SKIPPED) return true
  if (route !== undefined && route !== CATCH_ALL) return false
  return (
    HAS_PATH.test(target) &&
    /health/i.test(target.replace(/%([0-9a-f]{2})/gi, (_, byte) => String.fromCharCode(parseInt(byte, 16))))
  )
}

/** Whether a request was held to the limit of the route that it reached. */
function isExpected(
  routes: readonly LimitedRoute[],
  route: string | undefined,
  method: string,
  ip: string,
  policy: string,
): boolean {
  // A 404, and a target that has no path and takes a slash for granted.
  if (route === undefined || route === SKIPPED) return true
  const name = policy.replace(/;q=0;.*$/, '')
  if (ip === deniedAt(route)) return name === quotedName('override')
  // Of what a catch-all route gets, patterns with a slash at the end may match some.
  if (method === 'POST')
    return name === quotedName(ruleFor(route)) || (route === CATCH_ALL && name.startsWith('"rule-'))
  const prefix = routes.find(({ url }) => url === route)?.prefix
  return prefix === undefined ? name.startsWith('"/') : name === quotedName(prefix)
}

/** Hands a request to an app as Node.js does it. Nothing that an app with its counters in memory does takes any time. */
function exchange({ server }: FastifyInstance, method: string, url: string, socket: Socket): void {
  const request = Object.assign(new IncomingMessage(socket), { method, url, headers: { host: 'a' } })
  const response = new ServerResponse(request)
  let ended = false
  response.end = () => {
    ended = true
    return response
  }
  server.emit('request', request, response)
  assert.ok(ended, url)
}

function socketFrom(remoteAddress: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
}
