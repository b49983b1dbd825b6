/** Spellings of a URL: each that reaches a route meets its rule, and none causes a 500. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import type { RateLimitOptions } from '../../src/plugin/settings/options.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { connectHttp2, HTTP2, rawHeader, rawStatus, sendRaw } from '../support/http-client.js'

const RULE_LIMIT = '1000000'

const SPELLINGS = [
  ...['/early', '/early?x=1', '/early?', '/early#f', '/early?x#f', '/early#f?x'],
  ...['/%65arly', '/%65%61%72%6C%79', '/%65%61%72%6c%79?x', '/%45ARLY', '/%2565arly', '/%25%36%35arly'],
  ...['/EARLY', '/Early', '/eARLY/', '/early/', '/early//', '//early', '///early', '//early//', '/early/?x'],
  ...['/./early', '/../early', '/x/../early', '/early/.', '/early/..', '/%2e/early', '/health/../early'],
  ...[
    '/early%2F',
    '/early%2f',
    '%2Fearly',
    '/%2Fearly',
    '/early%3Fx',
    '/early%23f',
    '/early%3Bx',
    '/early;x',
    '/early;',
  ],
  ...['/early%00', '/%00early', '/early%20', '/early%09', '/early%0a', '/early%', '/early%2', '/early%zz'],
  ...['/early%ff', '/%c0%afearly', '/early%F0%9F%98%80', '/early\xe9', '/early\xf0\x9f\x98\x80', '/early\\', '\\early'],
  ...[
    'http://host/early',
    'HTTP://HOST/early',
    'https://a:b@host:81/early?x',
    'http://host//early',
    'http://host/EARLY/',
  ],
  ...['http://host', 'http://host?x=/early', 'http://host#/early', 'http:///early', 'ftp://host/early', 'early'],
  ...['*early', '*early?x', '*%65arly', '*EARLY/', '*/early', '**early', '*', '*early%2F', 'x://early'],
  ...['/health;/early', '/early?/health', '/early;/health', 'http://host/%65arly;x?y'],
]

const ROUTER_OPTIONS = ['ignoreTrailingSlash', 'ignoreDuplicateSlashes', 'useSemicolonDelimiter'] as const

type RouterFlags = { readonly [Option in (typeof ROUTER_OPTIONS)[number] | 'caseSensitive']?: boolean }

/** Every combination of the options that decide which spellings reach a route. */
const ROUTERS: readonly RouterFlags[] = Array.from({ length: 16 }, (_, bits) => ({
  ...(bits & 8 ? { caseSensitive: false } : {}),
  ...Object.fromEntries(ROUTER_OPTIONS.filter((_option, place) => bits & (1 << place)).map((option) => [option, true])),
}))

// Which spellings a rule covers is decided in the process, whatever the database.
describe('a URL in every spelling', () => {
  for (const routerOptions of ROUTERS) {
    for (const place of ['routerOptions', 'the top level'] as const) {
      test(`with ${JSON.stringify(routerOptions)} at ${place}, ${SPELLINGS.length} spellings of /early meet its rule exactly when they reach it`, async (t) => {
        const { send } = await startWithRule(t, place === 'routerOptions' ? { routerOptions } : routerOptions)
        let reached = 0
        for (const spelling of SPELLINGS) {
          const answer = await send(spelling)
          const isReached = answer.endsWith('early was reached')
          if (isReached) reached++
          assert.equal(rawHeader(answer, 'x-ratelimit-limit') === RULE_LIMIT, isReached, `${spelling}: ${answer}`)
          assert.ok([200, 400, 404].includes(rawStatus(answer)), `${spelling}: ${answer}`)
        }
        assert.ok(reached >= 10, `${reached} spellings reached it`)
      })
    }
  }

  test('a prefix of rateLimits and of skipPaths follows the router as rules do', async (t) => {
    const { request } = await startApp(t, {
      database: 'sqlite',
      fastify: { routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true } },
      plugin: { middleware: { rateLimits: { '/Auth/': '5/m' }, skipPaths: ['/Health'] } },
      routes: (app) => {
        for (const path of ['/auth', '/auth/login', '/health', '/healthy']) app.get(path, async () => path)
      },
    })
    const seen: Record<string, string | undefined> = {}
    for (const path of ['/auth', '/AUTH/login', '/%61uth//login/', '/HEALTH', '/health/', '//health', '/healthy']) {
      const { headers, status } = await request(path)
      assert.equal(status, 200, path)
      seen[path] = String(headers['x-ratelimit-limit'])
    }

    assert.deepEqual(seen, {
      '/auth': '5',
      '/AUTH/login': '5',
      '/%61uth//login/': '5',
      '/HEALTH': 'undefined',
      '/health/': 'undefined',
      '//health': 'undefined',
      '/healthy': '100',
    })
  })

  test('a target without a slash at its beginning meets the limit of the route that it reaches, of whatever kind', async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const plugin: RateLimitOptions = {
      useDynamicRules: true,
      middleware: { backend: 'memory', rateLimits: { '/login': '2/m' }, skipPaths: ['/health'] },
    }
    const routes = (app: FastifyInstance) => {
      for (const path of ['/login', '/admin', '/shop', '/health']) app.get(path, async () => `${path} was reached`)
    }
    const { rateLimitRule, rateLimitOverride } = database.client
    await rateLimitRule.create({ data: { name: 'closed', pathPattern: '^/admin$', rate: '0/m' } })
    await rateLimitOverride.create({ data: { client: 'ip:127.0.0.1', effect: 'deny', pathPattern: '^/shop$' } })
    const one = await startApp(t, { database, plugin, routes })
    const two = await startApp(t, { database, plugin, routes, fastify: HTTP2 })
    const session = connectHttp2(two.port)
    atEnd(t, session.close)

    for (const version of ['1.0', '1.1']) {
      const status = async (target: string) =>
        rawStatus(await sendRaw(one.port, `GET ${target} HTTP/${version}\r\nHost: a`))
      assert.deepEqual([await status('*admin'), await status('*%61dmin?x')], [429, 429])
      assert.deepEqual([await status('*shop'), await status('*sho%70#x')], [403, 403])
      assert.equal(await status('*health'), 200)
    }
    const status = async (target: string) => rawStatus(await sendRaw(one.port, `GET ${target} HTTP/1.1\r\nHost: a`))
    assert.deepEqual([await status('*login'), await status('/login'), await status('*log%69n')], [200, 200, 429])

    const send = (path: string) => session.send({ ':path': path, ':scheme': 'x' })
    assert.deepEqual([await send('xadmin'), await send('?admin'), await send('xsh%6fp')], [429, 429, 403])
    assert.deepEqual([await send('xlogin'), await send('#login'), await send('/login')], [200, 200, 429])
  })

  test('a target without a slash that a route * gets is held to the limit of what it spells, and never skipped', async (t) => {
    const { port } = await startApp(t, {
      database: 'sqlite',
      plugin: { middleware: { rateLimits: { '/login': '2/m' }, skipPaths: ['/health'] } },
      fastify: HTTP2,
      routes: (app) => {
        app.get('*', async () => 'all')
      },
    })
    const session = connectHttp2(port)
    atEnd(t, session.close)
    const limit = async (path: string) =>
      (await session.request({ ':path': path, ':scheme': 'x' }))['x-ratelimit-limit']

    assert.deepEqual([await limit('login'), await limit('log%69n/x'), await limit('xlogin')], ['2', '2', '100'])
    assert.deepEqual([await limit('/health'), await limit('health'), await limit('xhealth')], [undefined, '100', '100'])
  })

  test('a router that ignores case lower-cases İ into two characters, and so do rules, overrides and prefixes', async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const { rateLimitRule, rateLimitOverride } = database.client
    await rateLimitRule.create({ data: { name: 'api', pathPattern: '^/API', rate: '7/m' } })
    await rateLimitRule.create({ data: { name: 'contact', pathPattern: '^/İletişim$', rate: '8/m' } })
    await rateLimitOverride.create({ data: { client: 'ip:203.0.113.9', effect: 'deny', pathPattern: '^/Api' } })
    const { request } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true, middleware: { rateLimits: { '/İzmir': '9/m' } } },
      fastify: { routerOptions: { caseSensitive: false } },
      routes: (app) => {
        for (const path of ['/api*', '/İletişim', '/İzmir']) app.get(path, async () => 'reached')
      },
    })
    const limit = async (path: string, from = '203.0.113.1') => {
      const { status, headers } = await request(path, { from })
      return [status, headers['x-ratelimit-limit']]
    }

    assert.deepEqual(await limit('/ap%C4%B0/x'), [200, '7'])
    assert.deepEqual(await limit('/ap%C4%B0/x', '203.0.113.9'), [403, '0'])
    for (const spelling of ['/%C4%B0leti%C5%9Fim', '/%C4%B0LET%C4%B0%C5%9E%C4%B0M', '/i%CC%87leti%C5%9Fim']) {
      const reached = spelling !== '/%C4%B0LET%C4%B0%C5%9E%C4%B0M'
      assert.deepEqual(await limit(spelling), reached ? [200, '8'] : [404, '100'], spelling)
    }
    assert.deepEqual(
      [await limit('/%C4%B0zmir'), await limit('/i%CC%87ZM%49R')],
      [
        [200, '9'],
        [200, '9'],
      ],
    )
  })

  test('what Fastify refuses before any hook is neither limited nor logged, whatever frameworkErrors answers', async (t) => {
    const codes: string[] = []
    const { send, app } = await startWithRule(t, {
      frameworkErrors: ({ code }, _request, reply) => {
        codes.push(code)
        reply.raw.writeHead(418).end()
      },
    })

    for (const target of ['/early/%zz', `/files/${'x'.repeat(101)}`]) {
      const answer = await send(target)
      assert.equal(rawStatus(answer), 418)
      assert.equal(rawHeader(answer, 'x-ratelimit-limit'), undefined)
    }
    assert.deepEqual(codes, ['FST_ERR_BAD_URL', 'FST_ERR_MAX_PARAM_LENGTH'])
    await app.smartRateLimit.events.flush()
    assert.equal(await app.smartRateLimit.client.rateLimitEvent.count(), 0)
  })

  test('a pattern sees reserved characters as they were sent, and a regular expression of a route sees them decoded', async (t) => {
    const database = await openDatabase(t, 'sqlite')
    const { request } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true },
      routes: (app) => {
        app.get('/:mail(^.+@.+$)', async () => 'reached')
      },
    })
    await database.client.rateLimitRule.create({ data: { name: 'mail', pathPattern: '^/.+(@|%40).+$', rate: '9/m' } })

    for (const path of ['/a@b', '/a%40b']) {
      const { status, headers } = await request(path)
      assert.deepEqual([path, status, headers['x-ratelimit-limit']], [path, 200, '9'])
    }
  })

  test('with rewriteUrl the rule sees the path that is routed, and the log the path as received', async (t) => {
    const { send, app, client } = await startWithRule(t, {
      rewriteUrl: ({ url = '/' }) => url.replace('/old', '/early'),
    })

    assert.equal(rawHeader(await send('/old?x=1'), 'x-ratelimit-limit'), RULE_LIMIT)
    await app.smartRateLimit.events.flush()
    assert.deepEqual(
      (await client.rateLimitEvent.findMany()).map(({ path, ruleName }) => [path, ruleName]),
      [['/old', 'early']],
    )
  })

  test('with useSemicolonDelimiter the log keeps no query behind a semicolon either', async (t) => {
    const { send, app, client } = await startWithRule(t, { useSemicolonDelimiter: true })
    for (const target of ['/early;token=secret', '/early?token=secret', '/Early;?token=secret']) await send(target)

    await app.smartRateLimit.events.flush()
    const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ path }) => path),
      ['/early', '/early', '/Early'],
    )
  })

  test('a rule for ^/files/[^/]+$ covers an encoded slash, which the router takes for part of the name', async (t) => {
    const { request, app } = await startWithRule(t, {})
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'files', pathPattern: '^/files/[^/]+$', rate: '9/m' },
    })

    for (const path of ['/files/a', '/files/a%2Fb', '/files/%2e%2e%2fb', '/files/%F0%9F%98%80', '/files/a%25b']) {
      const { status, headers } = await request(path)
      assert.deepEqual([path, status, headers['x-ratelimit-limit']], [path, 200, '9'])
    }
  })
})

async function startWithRule(t: TestContext, fastify: FastifyServerOptions) {
  const started = await startApp(t, {
    database: 'sqlite',
    fastify,
    plugin: { logEvents: true, useDynamicRules: true, middleware: { backend: 'memory', skipPaths: ['/health'] } },
    routes: (app) => {
      app.get('/early', async () => 'early was reached')
      app.get('/', async () => 'root')
      app.get('/health', async () => 'healthy')
      app.get('/files/:name', async () => 'file')
    },
  })
  const { client } = started.app.smartRateLimit
  await client.rateLimitRule.create({ data: { name: 'early', pathPattern: '^/early$', rate: `${RULE_LIMIT}/m` } })
  return { ...started, client, send: (target: string) => sendRaw(started.port, `GET ${target} HTTP/1.1\r\nHost: a`) }
}
