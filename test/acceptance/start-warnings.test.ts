/** Warnings of setups that count otherwise than they look: what another limiter left, trusted peers, one limit twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import foreignLimiter from '@fastify/rate-limit'
import Fastify, { type FastifyInstance } from 'fastify'
import { rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { startApp, WARN } from '../support/build-app.js'

const ok = async () => 'ok'
const FOREIGN = { max: 2, timeWindow: '1 minute' }

/** Starts an app, and returns its warnings. */
async function warningsOf(
  t: Parameters<typeof startApp>[0],
  options: Omit<Parameters<typeof startApp>[1], 'database'>,
) {
  const { log } = await startApp(t, { database: null, ...options })
  return log.filter(({ level }) => level === WARN).map(({ msg }) => msg)
}

function declareForeign(app: FastifyInstance, urls: readonly string[]): void {
  for (const url of urls) app.get(url, { config: { rateLimit: FOREIGN } }, ok)
}

test('a config.rateLimit that nothing reads is warned about once at start, with the routes and the remedy', async (t) => {
  const warnings = await warningsOf(t, {
    routes(app) {
      declareForeign(app, ['/a', '/b', '/c', '/d', '/e'])
      app.post('/free', { config: { rateLimit: false } }, ok)
      app.get('/ours', { config: { smartRateLimit: { rate: '2/m' } } }, ok)
    },
  })
  assert.deepEqual(warnings, [
    "Rate limit: config.rateLimit has no effect on GET /a, GET /b, GET /c, GET /d, GET /e and 1 more: @fastify/rate-limit is not registered there. Write config.smartRateLimit instead, such as { rate: '5/m' }, or false for a route without a limit",
  ])
})

test('a config.rateLimit of a route that was declared before the plugin is warned about by its first request', async (t) => {
  const { log, request } = await startApp(t, {
    database: null,
    before(app) {
      declareForeign(app, ['/early', '/other'])
      app.register(async (scope) => {
        await scope.register(foreignLimiter)
        declareForeign(scope, ['/read'])
      })
    },
    routes: (app) => declareForeign(app, ['/late']),
  })
  for (const path of ['/early', '/early', '/read', '/late', '/other']) await request(path)
  assert.deepEqual(
    log.map(({ msg }) => /^Rate limit: config\.rateLimit has no effect on (.*?):/.exec(msg)?.[1]),
    ['GET /late', 'GET /early', 'GET /other'],
  )
})

test('a config.rateLimit that @fastify/rate-limit reads is not warned about, in its scope alone', async (t) => {
  const warnings = await warningsOf(t, {
    routes(app) {
      app.register(async (scope) => {
        await scope.register(foreignLimiter)
        declareForeign(scope, ['/read'])
      })
      app.register(async (scope) => declareForeign(scope, ['/left']))
    },
  })
  assert.deepEqual(
    warnings.map((text) => /has no effect on (.*?):/.exec(text)?.[1]),
    ['GET /left'],
  )
})

test('a misspelled config.smartRateLimit is warned about at start, once for each spelling', async (t) => {
  const warnings = await warningsOf(t, {
    routes(app) {
      app.get('/a', { config: { smartRatelimit: { rate: '2/m' } } }, ok)
      app.get('/again', { config: { smartRatelimit: false } }, ok)
      app.post('/b', { config: { samrtRateLimit: false, smart: 1, limit: 2 } }, ok)
    },
  })
  assert.deepEqual(warnings, [
    'Rate limit: config.smartRatelimit of GET /a does not exist, and has no effect. Did you mean `smartRateLimit`?',
    'Rate limit: config.samrtRateLimit of POST /b does not exist, and has no effect. Did you mean `smartRateLimit`?',
  ])
})

test('a plugin that is switched off warns of nothing', async (t) => {
  const plugin = { enabled: false }
  const fastify = { trustProxy: true }
  assert.deepEqual(await warningsOf(t, { plugin, fastify, routes: (app) => declareForeign(app, ['/a']) }), [])
})

test('trustProxy: true is warned about at start: every client may choose its address', async (t) => {
  assert.deepEqual(await warningsOf(t, { fastify: { trustProxy: true } }), [
    "Rate limits count an address that clients may choose: trustProxy is true, which believes the first address of X-Forwarded-For, from every peer. Set trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8']",
  ])
  const failing = () => {
    throw new Error('no proxies today')
  }
  for (const trustProxy of [false, ['127.0.0.1'], (address: string) => address.startsWith('10.'), failing]) {
    assert.deepEqual(await warningsOf(t, { fastify: { trustProxy } }), [])
  }
})

test('a trustProxy function that trusts strangers is warned about at start, also by a promise or a number of hops', async (t) => {
  const promising = (async () => false) as never
  for (const trustProxy of [() => true, (_address: string, hop: number) => hop < 1, promising]) {
    assert.deepEqual(await warningsOf(t, { fastify: { trustProxy } }), [
      "Rate limits count an address that clients may choose: trustProxy is a function that trusts any address, from every peer. Set trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8']",
    ])
  }
})

test('a number as trustProxy, which Fastify ignores, is warned about at start', async (t) => {
  const [warning = '', ...others] = await warningsOf(t, { fastify: { trustProxy: 2 as never } })
  assert.match(
    warning,
    /^Rate limits count a proxy as the client: trustProxy is 2, and Fastify 5\.\S+ ignores a number\. Set trustProxy to /,
  )
  assert.deepEqual(others, [])
})

test('a second registration beside the first is refused', async (t) => {
  const app = Fastify()
  atEnd(t, () => app.close())
  const options = { middleware: { backend: 'memory' as const } }
  await app.register(rateLimitPlugin, options)
  await assert.rejects(async () => app.register(rateLimitPlugin, options), /rateLimitPlugin is registered already/)
})

test('a limit that is a hook of one request twice counts it once, and is warned about once, by its name', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    routes: (app) => {
      const login = app.smartRateLimit.limit({ name: 'login', rate: '2/m' })
      app.get('/login', { onRequest: login, preHandler: login }, async () => 'ok')
    },
  })
  assert.deepEqual(await statuses(3, '/login'), [200, 200, 429])
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ['Rate limit: the limit "login" (2/m) is a hook of one request twice, and counts it once: remove one of the two'],
  )
})

for (const [where, name] of [
  ['its scope', ''],
  ['its scope', 'exports'],
  ['its hooks', ''],
] as const) {
  test(`a limit that the config of a route and ${where} both have is warned about once, ${name || 'without a name'}: requests count twice`, async (t) => {
    const { statuses, log } = await startApp(t, {
      database: null,
      async routes(app) {
        const limit = { rate: '4/m', ...(name === '' ? {} : { name, shared: true }) }
        const onRequest = app.smartRateLimit.limit({ ...limit, rate: '6/m' })
        if (where === 'its scope') app.addHook('onRequest', onRequest)
        const hooks = where === 'its scope' ? {} : { onRequest }
        app.get('/export', { ...hooks, config: { smartRateLimit: limit } }, ok)
      },
    })
    assert.deepEqual(await statuses(3, '/export'), [200, 200, 429])
    assert.equal(log.length, 1)
    assert.match(
      String(log[0]?.msg),
      /^Rate limit: (a limit without a name|the limit "exports") \(.\/m\) counts a request of GET \/export twice: .* give it another name$/,
    )
  })
}

test('limits of one route that differ in name, period or key count once each, and nothing is warned about', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    routes(app) {
      const { limit } = app.smartRateLimit
      const onRequest = [
        limit({ rate: '3/m' }),
        limit({ rate: '3/m', name: 'other' }),
        limit({ rate: '3/h' }),
        limit({ rate: '3/m', key: 'all' }),
        limit({ rate: '3/m', algorithm: 'sliding_window' }),
      ]
      app.get('/', { onRequest }, ok)
    },
  })
  assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 429])
  assert.deepEqual(log, [])
})
