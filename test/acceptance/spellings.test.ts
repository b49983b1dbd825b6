/** Somebody spells a URL in every way there is: whoever reaches a route meets its rule, and nobody gets a 500. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyServerOptions } from 'fastify'
import { openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { rawHeader, rawStatus, sendRaw } from '../support/http-client.js'

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
  ...['http://host', 'http://host?x=/early', 'http://host#/early', 'http:///early', 'ftp://host/early', 'early', '*'],
  ...['/health;/early', '/early?/health', '/early;/health', 'http://host/%65arly;x?y'],
]

const ROUTER_OPTIONS = ['ignoreTrailingSlash', 'ignoreDuplicateSlashes', 'useSemicolonDelimiter'] as const

type RouterFlags = { readonly [Option in (typeof ROUTER_OPTIONS)[number] | 'caseSensitive']?: boolean }

/** Every combination of the options that decide which spellings reach a route. */
const ROUTERS: readonly RouterFlags[] = Array.from({ length: 16 }, (_, bits) => ({
  ...(bits & 8 ? { caseSensitive: false } : {}),
  ...Object.fromEntries(ROUTER_OPTIONS.filter((_option, place) => bits & (1 << place)).map((option) => [option, true])),
}))

forEachDatabase((provider) => {
  for (const routerOptions of ROUTERS) {
    for (const place of ['routerOptions', 'the top level'] as const) {
      test(`with ${JSON.stringify(routerOptions)} at ${place}, ${SPELLINGS.length} spellings of /early meet its rule exactly when they reach it`, async (t) => {
        const { send } = await startWithRule(t, provider, place === 'routerOptions' ? { routerOptions } : routerOptions)
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
    const database = await openDatabase(t, provider)
    const { request } = await startApp(t, {
      database,
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

  test('with rewriteUrl the rule sees the path that is routed, and the log the path as received', async (t) => {
    const { send, app, client } = await startWithRule(t, provider, {
      rewriteUrl: ({ url = '/' }) => url.replace('/old', '/early'),
    })

    assert.equal(rawHeader(await send('/old?x=1'), 'x-ratelimit-limit'), RULE_LIMIT)
    await app.smartRateLimit.events.flush()
    assert.deepEqual(
      (await client.rateLimitEvent.findMany()).map(({ path, ruleName }) => [path, ruleName]),
      [['/old', 'early']],
    )
  })

  test('a rule for ^/files/[^/]+$ covers an encoded slash, which the router takes for part of the name', async (t) => {
    const { request, app } = await startWithRule(t, provider, {})
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'files', pathPattern: '^/files/[^/]+$', rate: '9/m' },
    })

    for (const path of ['/files/a', '/files/a%2Fb', '/files/%2e%2e%2fb', '/files/%F0%9F%98%80', '/files/a%25b']) {
      const { status, headers } = await request(path)
      assert.deepEqual([path, status, headers['x-ratelimit-limit']], [path, 200, '9'])
    }
  })
})

async function startWithRule(t: TestContext, provider: Provider, fastify: FastifyServerOptions) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, {
    database,
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
