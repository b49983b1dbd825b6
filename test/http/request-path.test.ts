import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { createRequestPath, PathPrefixes, routerOptionsOf } from '../../src/http/request-path.js'

/** Spellings of `/early` that some router option may accept, and things that look like it. */
const SPELLINGS = [
  '/early',
  '/%65arly',
  '/%65%61%72%6C%79',
  '/EARLY',
  '/early/',
  '/EARLY/',
  '//early',
  '/early//',
  '/early?x=/other',
  '/early#x',
  '/early;v=1',
  '/early%3Fx',
  '/early%2F',
  '/early%23',
  '/early%00',
  '/./early',
  '/x/../early',
  '/early%2520',
  '/early%C3%A9',
  '/early%c0%af',
  '/early%ff',
  'http://host.example/early',
  'HTTP://host.example/early?x',
  'http://host.example//early',
  'http://host.example',
  '*',
  `/early${'x'.repeat(5_000)}`,
]

const ROUTERS: Readonly<Record<string, FastifyServerOptions>> = {
  'as Fastify comes': {},
  'that ignores case': { routerOptions: { caseSensitive: false } },
  'that ignores a slash at the end': { routerOptions: { ignoreTrailingSlash: true } },
  'that ignores duplicate slashes': { routerOptions: { ignoreDuplicateSlashes: true } },
  'that splits at semicolons': { useSemicolonDelimiter: true },
  'that ignores all it can': {
    useSemicolonDelimiter: true,
    routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true },
  },
}

/** Sends a request line as it is, which `fetch` would tidy up, and answers the response's text. */
async function sendRaw(port: number, target: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET ${target} HTTP/1.1\r\nHost: host.example\r\nConnection: close\r\n\r\n`, 'latin1')
  return text(socket)
}

for (const [name, options] of Object.entries(ROUTERS)) {
  describe(`with a router ${name}`, () => {
    let app: FastifyInstance
    let port = 0
    const seen: string[] = []

    before(async () => {
      app = Fastify(options)
      const router = routerOptionsOf(app)
      const requestPath = createRequestPath(router)
      const covered = new PathPrefixes([['/early', true]], router)
      app.addHook('onRequest', async (request, reply) => {
        const path = requestPath(request.raw.url ?? '')
        seen.push(path)
        reply.header('x-covered', String(covered.find(path) ?? false))
      })
      app.get('/early', async () => 'reached')
      port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
    })
    after(() => app.close())

    for (const target of SPELLINGS) {
      test(`${target.slice(0, 40)} is limited as /early whenever it reaches the route /early`, async () => {
        const response = await sendRaw(port, target)
        const reached = response.endsWith('reached')
        if (reached) assert.match(response, /x-covered: true/)
        assert.doesNotMatch(response, /^HTTP\/1.1 5/)
      })
    }

    test('paths look like the route they reach, reserved characters staying encoded', async () => {
      seen.length = 0
      for (const target of ['/%65arly', '/a%2Fb', '/a%252Fb', 'http://h/x?y']) await sendRaw(port, target)
      assert.deepEqual(seen, ['/early', '/a%2Fb', '/a%252Fb', '/x'])
    })
  })
}

describe('path prefixes', () => {
  const asWritten = {
    caseSensitive: true,
    ignoreTrailingSlash: false,
    ignoreDuplicateSlashes: false,
    useSemicolonDelimiter: false,
  }
  const prefixes = new PathPrefixes(
    [
      ['/auth', 'auth'],
      ['/auth/login/', 'login'],
      ['/files/', 'files'],
    ],
    asWritten,
  )

  for (const [path, found] of [
    ['/auth', 'auth'],
    ['/auth/', 'auth'],
    ['/auth/x', 'auth'],
    ['/authors', undefined],
    ['/auth/login', 'auth'],
    ['/auth/login/', 'login'],
    ['/auth/login/x', 'login'],
    ['/files', undefined],
    ['/files/', 'files'],
    ['/x/auth', undefined],
  ] as const) {
    test(`${path} is covered by ${found ?? 'none'}`, () => assert.equal(prefixes.find(path), found))
  }

  test('of "/" cover everything', () => {
    const all = new PathPrefixes([['/', true]], asWritten)
    for (const path of ['/', '/x', '//']) assert.equal(all.find(path), true)
  })
})
