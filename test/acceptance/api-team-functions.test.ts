/** An API team lets functions of its own decide about rates and keys, and shares a database between apps. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'

forAnyDatabase((provider) => {
  test('a defaultRate function gives user a 5/m and all others 2/m', async (t) => {
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: {
        user: ({ headers }) => (headers.authorization ? { id: headers.authorization } : null),
        middleware: {
          key: 'user',
          defaultRate: ({ headers }) => (headers.authorization === 'a' ? '5/m' : '2/m'),
        },
      },
    })

    assert.deepEqual(await statuses(6, '/', { headers: { authorization: 'a' } }), [200, 200, 200, 200, 200, 429])
    assert.deepEqual(await statuses(3, '/', { headers: { authorization: 'b' } }), [200, 200, 429])
  })

  test('a defaultRate function that answers two periods has a counter for each, and both hold', async (t) => {
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: ({ method }) => (method === 'GET' ? '2/m' : '2/h') } },
    })

    const answers: number[] = []
    for (let round = 0; round < 3; round++) {
      answers.push(...(await statuses(1, '/')), ...(await statuses(1, '/', { method: 'HEAD' })))
    }
    assert.deepEqual(answers, [200, 200, 200, 200, 429, 429])
  })

  test('a defaultRate function that throws, or answers nothing or nonsense, means 100/m and one line in the log, also of a route', async (t) => {
    const answers: Record<string, () => string> = {
      '/undefined': () => undefined as never,
      '/number': () => 5 as never,
      '/nothing': () => '',
      '/nonsense': () => 'many',
      '/throws': () => {
        throw new Error('no rates today')
      },
    }
    const { request, log } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: ({ url }) => answers[url]?.() ?? (undefined as never) } },
      routes(app) {
        app.get('/*', async () => 'ok')
        for (const answer of Object.keys(answers)) {
          const onRequest = app.smartRateLimit.limit({ rate: () => answers[answer]?.() ?? (undefined as never) })
          app.get(`/route${answer}`, { onRequest, config: { smartRateLimit: false } }, async () => 'ok')
        }
      },
    })

    const paths = ['/throws', '/throws', '/nothing', '/undefined', '/number', '/nonsense']
    for (const path of [...paths, ...Object.keys(answers).map((answer) => `/route${answer}`)]) {
      const { status, headers } = await request(path)
      assert.deepEqual([path, status, headers['x-ratelimit-limit']], [path, 200, '100'])
    }
    const lines = log.map(({ msg }) => msg)
    assert.equal(lines.length, 1 + Object.keys(answers).length, lines.join('\n'))
    assert.equal(lines[0], 'Rate limit setting "middleware.defaultRate" failed: no rates today')
    assert.equal(lines.at(-1), 'Rate limit setting "limit.rate" failed: no rates today')
  })

  test('a key function decides who is counted; an empty answer and a failure mean the IP address', async (t) => {
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: {
        middleware: {
          defaultRate: '1/h',
          key: async ({ headers }) => {
            if (headers['x-tenant'] === 'broken') throw new Error('no tenants')
            return String(headers['x-tenant'] ?? '')
          },
        },
      },
    })

    assert.deepEqual(await statuses(2, '/', { from: ALICE, headers: { 'x-tenant': 'acme' } }), [200, 429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-tenant': 'acme' } }), [429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-tenant': 'initech' } }), [200])
    assert.deepEqual(await statuses(2, '/', { from: BOB }), [200, 429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-tenant': 'broken' } }), [429])
  })

  test('two apps that share a database count together, unless their namespaces differ', async (t) => {
    const database = await openDatabase(t, provider)
    const middleware = { defaultRate: '2/h' }
    const one = await startApp(t, { database, plugin: { middleware } })
    const two = await startApp(t, { database, plugin: { middleware }, clock: one.clock })
    const other = await startApp(t, { database, plugin: { middleware, namespace: 'other' }, clock: one.clock })

    assert.deepEqual(await one.statuses(1, '/'), [200])
    assert.deepEqual(await two.statuses(2, '/'), [200, 429])
    assert.deepEqual(await one.statuses(1, '/'), [429])
    assert.deepEqual(await other.statuses(3, '/'), [200, 200, 429])
    one.clock.advance(HOUR_MS)
    assert.deepEqual(await two.statuses(1, '/'), [200])
  })
})
