/** An operator edits rules while the server runs, and the very next request obeys. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { startApp } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'

forAnyDatabase((provider) => {
  test('a rule of 2/m for /api/ holds as soon as it is created; all else keeps the default', async (t) => {
    const { rules, statuses } = await startWithRules(t, provider)
    assert.deepEqual(await statuses(3, '/api/x'), [200, 200, 200])

    await rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })

    assert.deepEqual(await statuses(4, '/api/x'), [200, 200, 429, 429])
    assert.deepEqual(await statuses(4, '/other'), [200, 200, 200, 200])
  })

  test('update, updateMany, upsert, delete, deleteMany and createMany are obeyed by the very next request', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    const rule = { name: 'api', pathPattern: '^/api/', rate: '2/m' }

    await rules.createMany({ data: [rule] })
    assert.equal(await limitOf('/api/x'), '2')
    await rules.update({ where: { name: 'api' }, data: { rate: '3/m' } })
    assert.equal(await limitOf('/api/x'), '3')
    await rules.updateMany({ data: { rate: { set: '4/m' } } })
    assert.equal(await limitOf('/api/x'), '4')
    await rules.upsert({ where: { name: 'api' }, create: rule, update: { rate: '5/m' } })
    assert.equal(await limitOf('/api/x'), '5')
    await rules.updateManyAndReturn({ data: { isActive: false } })
    assert.equal(await limitOf('/api/x'), '1000')
    await rules.updateMany({ data: { isActive: true } })
    assert.equal(await limitOf('/api/x'), '5')
    await rules.delete({ where: { name: 'api' } })
    assert.equal(await limitOf('/api/x'), '1000')
    await rules.createManyAndReturn({ data: [{ ...rule, rate: '6/m' }] })
    assert.equal(await limitOf('/api/x'), '6')
    await rules.deleteMany()
    assert.equal(await limitOf('/api/x'), '1000')
    await rules.upsert({ where: { name: 'api' }, create: rule, update: {} })
    assert.equal(await limitOf('/api/x'), '2')
  })

  test('a change inside an interactive transaction holds after its commit, and never after a rollback', async (t) => {
    // Counters in memory: SQLite has one writer at a time, and here that is the transaction.
    const { rules, client, limitOf } = await startWithRules(t, provider, { middleware: { backend: 'memory' } })
    await rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })

    await client.$transaction(async (transaction) => {
      await transaction.rateLimitRule.update({ where: { name: 'api' }, data: { rate: '3/m' } })
      // A request between write and commit still sees the old rule, and must not make it stick.
      assert.equal(await limitOf('/api/x'), '2')
    })
    assert.equal(await limitOf('/api/x'), '3')
    await assert.rejects(
      client.$transaction(async (transaction) => {
        await transaction.rateLimitRule.update({ where: { name: 'api' }, data: { rate: '4/m' } })
        throw new Error('changed my mind')
      }),
      /changed my mind/,
    )
    assert.equal(await limitOf('/api/x'), '3')
  })

  test('a change inside a transaction given as a list holds for the next request', async (t) => {
    const { rules, client, limitOf } = await startWithRules(t, provider)
    const [created, updated] = await client.$transaction([
      rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } }),
      rules.update({ where: { name: 'api' }, data: { rate: '7/m' } }),
    ])

    assert.deepEqual([created.rate, updated.rate], ['2/m', '7/m'])
    assert.equal(await limitOf('/api/x'), '7')
  })

  test('an edited rate keeps the counter: a client that used 3 of 2/m has 7 left of 10/m', async (t) => {
    const { rules, statuses, request } = await startWithRules(t, provider)
    await rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })
    assert.deepEqual(await statuses(3, '/api/x'), [200, 200, 429])

    await rules.update({ where: { name: 'api' }, data: { rate: '10/m' } })
    const { status, headers } = await request('/api/x')

    assert.deepEqual([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [200, '10', '6'])
  })

  test('the highest priority wins, then the first name; an inactive rule and one for another method do not count', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    const at = (name: string, rate: string, more: object = {}) => ({ name, pathPattern: '^/api/', rate, ...more })
    await rules.createMany({
      data: [
        at('low', '1/m', { priority: -1 }),
        at('b', '2/m', { priority: 5 }),
        at('a', '3/m', { priority: 5 }),
        at('posts', '4/m', { priority: 9, method: 'POST' }),
        at('off', '5/m', { priority: 99, isActive: false }),
      ],
    })

    assert.equal(await limitOf('/api/x'), '3')
    assert.equal(await limitOf('/api/x', { method: 'POST' }), '4')
    await rules.update({ where: { name: 'off' }, data: { isActive: true } })
    assert.equal(await limitOf('/api/x'), '5')
    await rules.updateMany({ where: { name: { in: ['off', 'a'] } }, data: { isActive: false } })
    assert.equal(await limitOf('/api/x'), '2')
  })

  test('names of one priority are ordered by their bytes: Z before a', async (t) => {
    const { rules, app, limitOf } = await startWithRules(t, provider)
    await rules.createMany({
      data: ['a', 'Z', 'b', '0'].map((name, place) => ({ name, pathPattern: '^/', rate: `${place + 1}/m` })),
    })

    assert.equal(await limitOf('/'), '4')
    assert.deepEqual(
      (await app.smartRateLimit.rules.active()).map(({ name }) => name),
      ['0', 'Z', 'a', 'b'],
    )
  })

  test('a rule for GET also covers HEAD, one for POST and PUT neither; case and blanks of the list do not matter', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    const { method } = await rules.create({
      data: { name: 'reads', pathPattern: '^/api/', rate: '2/m', method: 'get' },
    })
    const writes = await rules.create({
      data: { name: 'writes', pathPattern: '^/api/', rate: '3/m', method: 'post, Put' },
    })

    assert.equal(method, 'GET')
    assert.equal(writes.method, 'POST,PUT')
    assert.equal(await limitOf('/api/x'), '2')
    assert.equal(await limitOf('/api/x', { method: 'HEAD' }), '2')
    assert.equal(await limitOf('/api/x', { method: 'PUT' }), '3')
    assert.equal(await limitOf('/api/x', { method: 'DELETE' }), '1000')
  })

  test('rules count apart, by ip, by user and by header, under keys that begin with their names', async (t) => {
    const { rules, app, statuses, events } = await startWithRules(t, provider, {
      user: ({ headers }) => (headers.authorization ? { id: Number(headers.authorization) } : null),
    })
    await rules.createMany({
      data: [
        { name: 'by ip', pathPattern: '^/ip', rate: '1/m' },
        { name: 'by-user', pathPattern: '^/user', rate: '1/m', key: 'user' },
        { name: 'by-key', pathPattern: '^/key', rate: '1/m', key: 'header:X-Api-Key' },
      ],
    })
    const headers = { authorization: '7', 'x-api-key': 'abc' }

    for (const path of ['/ip', '/user', '/key']) {
      assert.deepEqual(await statuses(2, path, { from: ALICE, headers }), [200, 429], path)
    }
    assert.deepEqual(await statuses(1, '/ip', { from: BOB, headers }), [200])
    assert.deepEqual(await statuses(1, '/user', { from: BOB, headers }), [429])
    assert.deepEqual(await statuses(1, '/user', { from: BOB }), [200])
    assert.deepEqual(await statuses(1, '/key', { from: BOB, headers }), [429])
    assert.deepEqual(await statuses(1, '/key', { from: BOB }), [200])
    await app.smartRateLimit.events.flush()
    assert.deepEqual([...new Set((await events()).map(({ key, ruleName }) => `${key} of ${ruleName}`))].sort(), [
      `rule:by ip:${ALICE} of by ip`,
      `rule:by ip:${BOB} of by ip`,
      `rule:by-key:${BOB} of by-key`,
      'rule:by-key:abc of by-key',
      `rule:by-user:${BOB} of by-user`,
      'rule:by-user:user:7 of by-user',
    ])
  })

  test('a rule that does not block lets through and logs allowed with a count above the limit', async (t) => {
    const { rules, app, statuses, events } = await startWithRules(t, provider)
    await rules.create({ data: { name: 'watch', pathPattern: '^/', rate: '1/m', block: false } })

    assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
    await app.smartRateLimit.events.flush()
    assert.deepEqual(
      (await events()).map(({ allowed, count, limit }) => [allowed, count, limit]),
      [
        [true, 1, 1],
        [true, 2, 1],
        [true, 3, 1],
      ],
    )
  })

  test('a rule beats rateLimits, blocks even where the static configuration does not, and spares skipped paths', async (t) => {
    const { rules, statuses, limitOf } = await startWithRules(t, provider, {
      middleware: { block: false, defaultRate: '1/m', rateLimits: { '/api/': '5/m' }, skipPaths: ['/health'] },
    })
    await rules.create({ data: { name: 'all', pathPattern: '.', rate: '2/m' } })

    assert.equal(await limitOf('/api/x'), '2')
    assert.deepEqual(await statuses(2, '/api/x'), [200, 429])
    assert.deepEqual(await statuses(3, '/health'), [200, 200, 200])
  })

  test('a pattern is searched in the path: "secret" matches anywhere, "^/secret$" only whole, and never the query', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    await rules.create({ data: { name: 'whole', pathPattern: '^/secret$', rate: '2/m', priority: 1 } })
    await rules.create({ data: { name: 'anywhere', pathPattern: 'secret', rate: '3/m' } })

    assert.equal(await limitOf('/secret'), '2')
    assert.equal(await limitOf('/secret?x=1'), '2')
    assert.equal(await limitOf('/my/secrets'), '3')
    assert.equal(await limitOf('/Secret'), '1000')
    assert.equal(await limitOf('/open?page=secret'), '1000')
  })

  test('a pattern that would take a backtracking engine hours answers at once', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    await rules.create({ data: { name: 'hard', pathPattern: '^/(a+)+$', rate: '2/m' } })
    const startedMs = performance.now()

    assert.equal(await limitOf(`/${'a'.repeat(5_000)}!`), '1000')
    assert.equal(await limitOf(`/${'a'.repeat(5_000)}`), '2')
    assert.ok(performance.now() - startedMs < 2_000)
  })
})

async function startWithRules(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const started = await startApp(t, {
    database: provider,
    plugin: { logEvents: true, useDynamicRules: true, middleware: { defaultRate: '1000/m' }, ...plugin },
    routes: (app) => {
      app.all('/*', async () => 'ok')
    },
  })
  const { client } = started.app.smartRateLimit
  return {
    ...started,
    client,
    rules: client.rateLimitRule,
    events: () => client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } }),
    limitOf: async (path: string, asked: Parameters<typeof started.request>[1] = {}) =>
      (await started.request(path, asked)).headers['x-ratelimit-limit'],
  }
}
