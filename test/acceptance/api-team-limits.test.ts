/** An API team protects its routes: rates, prefixes, counters, headers and the refusal itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { startApp } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'
import type { Answer } from '../support/http-client.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'

function limitHeaders({ headers }: Answer) {
  return {
    limit: headers['x-ratelimit-limit'],
    remaining: headers['x-ratelimit-remaining'],
    reset: headers['x-ratelimit-reset'],
  }
}

forAnyDatabase((provider) => {
  test('with 5/m the sixth request of a client is refused, and another client still has all 5', async (t) => {
    const { statuses, request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '5/m' } },
    })

    assert.deepEqual(await statuses(6, '/things', { from: ALICE }), [200, 200, 200, 200, 200, 429])

    const first = await request('/things', { from: BOB })
    assert.equal(first.status, 200)
    assert.deepEqual(limitHeaders(first), { limit: '5', remaining: '4', reset: '60' })
  })

  test('every checked answer has the limit, what is left (4, 3, 2, 1, 0, 0) and the seconds until the window ends', async (t) => {
    const { request, clock } = await startApp(t, { database: provider, plugin: { middleware: { defaultRate: '5/m' } } })
    const seen: unknown[] = []
    for (let count = 1; count <= 6; count++) {
      seen.push(limitHeaders(await request('/')))
      clock.advance(7_500)
    }

    assert.deepEqual(seen, [
      { limit: '5', remaining: '4', reset: '60' },
      { limit: '5', remaining: '3', reset: '53' },
      { limit: '5', remaining: '2', reset: '45' },
      { limit: '5', remaining: '1', reset: '38' },
      { limit: '5', remaining: '0', reset: '30' },
      { limit: '5', remaining: '0', reset: '23' },
    ])
  })

  test('a refusal 48 s into the minute is a JSON 429 that asks to wait 12 seconds', async (t) => {
    const { request, clock } = await startApp(t, { database: provider, plugin: { middleware: { defaultRate: '2/m' } } })
    clock.advance(48 * SECOND_MS)
    await request('/')
    await request('/')

    const { status, headers, text } = await request('/')

    assert.equal(status, 429)
    assert.equal(headers['retry-after'], '12')
    assert.match(String(headers['content-type']), /^application\/json/)
    assert.deepEqual(JSON.parse(text), {
      statusCode: 429,
      code: 'FST_RATE_LIMIT_EXCEEDED',
      error: 'Too Many Requests',
      message: 'Rate limit exceeded, retry in 12 seconds',
    })
    clock.advance(11 * SECOND_MS + 999)
    const last = await request('/')
    assert.equal(last.headers['retry-after'], '1')
    assert.equal(JSON.parse(last.text).message, 'Rate limit exceeded, retry in 1 second')
  })

  test('allowed answers carry no Retry-After', async (t) => {
    const { request } = await startApp(t, { database: provider, plugin: { middleware: { defaultRate: '1/m' } } })

    assert.equal((await request('/')).headers['retry-after'], undefined)
    assert.equal((await request('/')).headers['retry-after'], '60')
  })

  test('a window ends on the full minute: a client refused until then has its whole limit again', async (t) => {
    const { statuses, clock } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '2/m' } },
    })
    clock.advance(45 * SECOND_MS)

    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    clock.advance(14 * SECOND_MS + 999)
    assert.deepEqual(await statuses(1, '/'), [429])
    clock.advance(1)
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
  })

  test('the longest prefix decides: /auth/admin has 1/m, the rest of /auth/ 2/m, all else 3/m', async (t) => {
    const rateLimits = { '/auth/': '2/m', '/auth/admin': '1/m' }
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '3/m', rateLimits } },
    })
    const limitOf = async (path: string) => (await request(path)).headers['x-ratelimit-limit']

    assert.equal(await limitOf('/auth/admin'), '1')
    assert.equal(await limitOf('/auth/admin/users'), '1')
    assert.equal(await limitOf('/auth/administrator'), '2')
    assert.equal(await limitOf('/auth/login'), '2')
    assert.equal(await limitOf('/auth/?next=/auth/admin'), '2')
    assert.equal(await limitOf('/auth'), '3')
    assert.equal(await limitOf('/authors'), '3')
  })

  test('a prefix without a slash at its end covers /auth and /auth/login, but not /authors', async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '9/m', rateLimits: { '/auth': '2/m' } } },
    })
    const limitOf = async (path: string) => (await request(path)).headers['x-ratelimit-limit']

    assert.equal(await limitOf('/auth'), '2')
    assert.equal(await limitOf('/auth/'), '2')
    assert.equal(await limitOf('/auth/login'), '2')
    assert.equal(await limitOf('/auth?x=1'), '2')
    assert.equal(await limitOf('/authors'), '9')
  })

  test('a prefix has one counter per client, shared by its paths and by nothing else', async (t) => {
    const { statuses, request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '3/m', rateLimits: { '/auth/': '2/m', '/api/': '2/m' } } },
    })

    assert.deepEqual(await statuses(1, '/auth/login', { from: ALICE }), [200])
    assert.deepEqual(await statuses(1, '/auth/logout', { from: ALICE }), [200])
    assert.deepEqual(await statuses(1, '/auth/login', { from: ALICE }), [429])
    assert.deepEqual(await statuses(1, '/auth/login', { from: BOB }), [200])
    assert.equal((await request('/api/x', { from: ALICE })).headers['x-ratelimit-remaining'], '1')
    assert.equal((await request('/other', { from: ALICE })).headers['x-ratelimit-remaining'], '2')
  })

  test('block: false counts and reports, but refuses no request', async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '2/m', block: false } },
    })
    const answers = [await request('/'), await request('/'), await request('/')]

    assert.deepEqual(
      answers.map(({ status, headers }) => [status, headers['x-ratelimit-remaining'], headers['retry-after']]),
      [
        [200, '1', undefined],
        [200, '0', undefined],
        [200, '0', undefined],
      ],
    )
  })

  test('a limit of 0 refuses everything and promises no time at which that changes', async (t) => {
    const { request } = await startApp(t, { database: provider, plugin: { middleware: { defaultRate: '0/m' } } })

    const { status, headers, text } = await request('/')

    assert.equal(status, 429)
    assert.equal(headers['x-ratelimit-limit'], '0')
    assert.equal(headers['x-ratelimit-remaining'], '0')
    assert.equal(headers['retry-after'], undefined)
    assert.equal(JSON.parse(text).code, 'FST_RATE_LIMIT_EXCEEDED')
  })

  test("the host's error handler may reshape the refusal, and keeps its headers", async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { middleware: { defaultRate: '0/h' } },
      before: (app) => {
        app.setErrorHandler<Error & { code: string; statusCode: number }>((error, _request, reply) =>
          reply.code(418).send({ mine: error.code, was: error.statusCode }),
        )
      },
    })

    const { status, headers, text } = await request('/')

    assert.equal(status, 418)
    assert.deepEqual(JSON.parse(text), { mine: 'FST_RATE_LIMIT_EXCEEDED', was: 429 })
    assert.equal(headers['x-ratelimit-limit'], '0')
  })

  test("headers: 'none' sends no X-RateLimit header, but still Retry-After with a refusal", async (t) => {
    const { request } = await startApp(t, {
      database: provider,
      plugin: { headers: 'none', middleware: { defaultRate: '1/m' } },
    })

    assert.deepEqual(limitHeaders(await request('/')), { limit: undefined, remaining: undefined, reset: undefined })
    const refused = await request('/')
    assert.deepEqual(limitHeaders(refused), { limit: undefined, remaining: undefined, reset: undefined })
    assert.equal(refused.headers['retry-after'], '60')
  })
})
