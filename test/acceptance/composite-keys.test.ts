/** Requests are counted by several kinds together, by route, by cookie, or all by one counter. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import fastifyCookie from '@fastify/cookie'
import type { FastifyInstance } from 'fastify'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp, WARN } from '../support/build-app.js'
import { forAnyDatabase, type TestDatabase } from '../support/databases.js'
import { REDIS_URL, redisMissing } from '../support/redis.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'

function routes(app: FastifyInstance): void {
  app.get('/items/:id', async () => 'ok')
  app.get('/items/', async () => 'ok')
  app.get('/others', async () => 'ok')
  app.get('/', async () => 'ok')
}

async function start(t: TestContext, database: TestDatabase | null, plugin: RateLimitOptions) {
  return startApp(t, {
    database,
    routes,
    plugin: {
      logEvents: database !== null,
      useDynamicRules: database !== null,
      user: ({ headers: { authorization } }) => (authorization === undefined ? null : { id: authorization }),
      ...plugin,
    },
  })
}

/** Returns what the log says of each request, the oldest first. */
async function logged({ client }: TestDatabase, app: FastifyInstance): Promise<(string | null)[][]> {
  await app.smartRateLimit.events.flush()
  const rows = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  return rows.map(({ key, client: counted, clientIp }) => [key, counted, clientIp])
}

forAnyDatabase((provider) => {
  test('a rule by user and address counts each pair apart, and the log spells its parts', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, {})
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'pairs', pathPattern: '^/items', rate: '1/h', key: 'user+ip' },
    })
    const as = (authorization: string, from: string) => ({ headers: { authorization }, from })
    assert.deepEqual(await statuses(2, '/items/1', as('7', ALICE)), [200, 429])
    assert.deepEqual(await statuses(2, '/items/1', as('7', BOB)), [200, 429])
    assert.deepEqual(await statuses(2, '/items/1', as('8', ALICE)), [200, 429])
    assert.deepEqual(await statuses(2, '/items/1', { from: ALICE }), [200, 429])
    assert.deepEqual(await statuses(1, '/items/1', as('-', ALICE)), [200])
    const log = await logged(database, app)
    assert.deepEqual(
      [0, 2, 6, 8].map((place) => log[place]),
      [
        [`rule:pairs:user:7|${ALICE}`, `user:7|ip:${ALICE}`, ALICE],
        [`rule:pairs:user:7|${BOB}`, `user:7|ip:${BOB}`, BOB],
        [`rule:pairs:-|${ALICE}`, `user:-|ip:${ALICE}`, ALICE],
        [`rule:pairs:user:\\-|${ALICE}`, `user:\\-|ip:${ALICE}`, ALICE],
      ],
    )

    await app.smartRateLimit.reset(`rule:pairs:user:7|${ALICE}`)
    assert.deepEqual(await statuses(1, '/items/1', as('7', ALICE)), [200])
    assert.deepEqual(await statuses(1, '/items/1', as('7', BOB)), [429])
    await app.smartRateLimit.reset(`rule:pairs:-|${ALICE}`)
    assert.deepEqual(await statuses(1, '/items/1', { from: ALICE }), [200])
  })

  test('a rule by header and route: no value of a header spells another client, and strangers share no counter', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, {})
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'r', pathPattern: '/', rate: '1/h', key: 'header:X-A+route+header:X-B' },
    })
    const asking = (a: string | undefined, b: string | undefined, from = ALICE) => ({
      headers: { ...(a === undefined ? {} : { 'x-a': a }), ...(b === undefined ? {} : { 'x-b': b }) },
      from,
    })
    const long = 'x'.repeat(7_000)
    const clients = [
      ['1', '2'],
      ['1|/items/:id|2', '3'],
      ['1', '/items/:id|2'],
      ['1\\', '2'],
      ['1\\|', '2'],
      ['-', '2'],
      [undefined, '2'],
      [undefined, undefined],
      ['-', '-'],
      [`2|${ALICE}`, undefined],
      [`${long}1`, '2'],
      [`${long}2`, '2'],
      ['user:7', `ip:${ALICE}`],
    ] as const
    for (const [a, b] of clients) assert.deepEqual(await statuses(2, '/items/1', asking(a, b)), [200, 429], `${a} ${b}`)
    // Another route, and another address only where the address is part of the client.
    assert.deepEqual(await statuses(2, '/others', asking('1', '2')), [200, 429])
    assert.deepEqual(await statuses(1, '/items/2', asking('1', '2', BOB)), [429])
    assert.deepEqual(await statuses(1, '/items/2', asking(undefined, '2', BOB)), [200])
    assert.deepEqual(await statuses(1, '/items/2', asking(undefined, undefined, BOB)), [200])

    const log = await logged(database, app)
    assert.deepEqual(
      [0, 2, 12, 14].map((place) => log[place]),
      [
        ['rule:r:1|/items/:id|2', 'header:x-a:1|route:/items/:id|header:x-b:2', null],
        ['rule:r:1\\|/items/:id\\|2|/items/:id|3', 'header:x-a:1\\|/items/:id\\|2|route:/items/:id|header:x-b:3', null],
        [`rule:r:-|/items/:id|2|${ALICE}`, `header:x-a:-|route:/items/:id|header:x-b:2|ip:${ALICE}`, ALICE],
        [`rule:r:-|/items/:id|-|${ALICE}`, `header:x-a:-|route:/items/:id|header:x-b:-|ip:${ALICE}`, ALICE],
      ],
    )
  })

  test('rules by route, and for all together, count what they say', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, {})
    const { rateLimitRule } = app.smartRateLimit.client
    await rateLimitRule.create({
      data: { name: 'routes', pathPattern: '^/(items|nowhere)', rate: '2/h', key: 'route' },
    })
    await rateLimitRule.create({ data: { name: 'all', pathPattern: '^/others', rate: '2/h', key: 'all' } })
    assert.deepEqual(await statuses(1, '/items/1', { from: ALICE }), [200])
    assert.deepEqual(await statuses(2, '/items/2', { from: BOB }), [200, 429])
    // `/items` without and with its slash is one route.
    assert.deepEqual(await statuses(1, '/items/', { from: BOB }), [200])
    assert.deepEqual(await statuses(1, '/nowhere', { from: ALICE }), [404])
    assert.deepEqual(await statuses(2, '/nowhere/else', { from: BOB }), [404, 429])
    assert.deepEqual(await statuses(1, '/others', { from: ALICE }), [200])
    assert.deepEqual(await statuses(2, '/others', { from: BOB }), [200, 429])
    const log = await logged(database, app)
    assert.deepEqual(
      [0, 3, 4, 7].map((place) => log[place]),
      [
        ['rule:routes:/items/:id', 'route:/items/:id', null],
        ['rule:routes:/items', 'route:/items', null],
        ['rule:routes:404', 'route:404', null],
        ['rule:all:all', 'all', null],
      ],
    )
    await app.smartRateLimit.reset('rule:all:all')
    await app.smartRateLimit.reset('rule:routes:/items/:id')
    assert.deepEqual(await statuses(1, '/others'), [200])
    assert.deepEqual(await statuses(1, '/items/1'), [200])
  })

  test('a cookie counts by its first value, however it is spelled, and no cookie by address', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, { middleware: { defaultRate: '2/h', key: 'cookie:sid' } })
    const asking = (cookie: string, from = ALICE) => ({ headers: { cookie }, from })
    assert.deepEqual(await statuses(1, '/', asking('sid=abc')), [200])
    assert.deepEqual(await statuses(1, '/', asking('a=1; xsid=x;  sid = "a%62c" ; sid=other', BOB)), [200])
    assert.deepEqual(await statuses(1, '/', asking(`${'c=1; '.repeat(2_000)}sid=abc`)), [429])
    assert.deepEqual(await statuses(1, '/', asking('SID=abc')), [200])
    assert.deepEqual(await statuses(2, '/', asking('sid=; sid=abc')), [200, 429])
    assert.deepEqual(await statuses(3, '/', asking(`sid=${ALICE}`)), [200, 200, 429])
    assert.deepEqual(await statuses(1, '/', asking('sid=%E0%A4%A')), [200])
    const log = await logged(database, app)
    assert.deepEqual(log[1], ['cookie:abc', 'cookie:sid:abc', null])
    assert.deepEqual(log[3], [`ip:${ALICE}`, `ip:${ALICE}`, ALICE])
    await app.smartRateLimit.reset('cookie:abc')
    assert.deepEqual(await statuses(1, '/', asking('sid=abc')), [200])
  })

  test('a cookie is what the host has parsed before', async (t) => {
    const { request } = await startApp(t, {
      database: null,
      before: async (app) => {
        await app.register(fastifyCookie)
        app.addHook('onRequest', async (request) => {
          request.cookies = { sid: request.cookies.sid?.toLowerCase() }
        })
      },
      plugin: { middleware: { defaultRate: '2/h', key: 'cookie:sid' } },
    })
    const status = async (sid: string) => (await request('/', { headers: { cookie: `sid=${sid}` } })).status
    assert.deepEqual([await status('ABC'), await status('abc'), await status('Abc')], [200, 200, 429])
    assert.equal(await status('"abc"'), 200)
  })

  test('hashHeaderKeys keeps the values of headers and cookies out of log and counters', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, {
      hashHeaderKeys: true,
      hashSecret: 'a secret of the server',
      middleware: { defaultRate: '1/h', key: 'header:x-a+cookie:sid+ip' },
    })
    const asking = { headers: { 'x-a': 'key-0123456789', cookie: 'sid=session-0123456789' }, from: ALICE }
    assert.deepEqual(await statuses(2, '/', asking), [200, 429])
    const [[key = '', client = ''] = []] = await logged(database, app)
    assert.match(key ?? '', /^key~[0-9a-f]{32}\|sess~[0-9a-f]{32}\|203\.0\.113\.7$/)
    assert.match(client ?? '', /^header:x-a:key~[0-9a-f]{32}\|cookie:sid:sess~[0-9a-f]{32}\|ip:203\.0\.113\.7$/)
    const counters = await database.client.rateLimitCounter.findMany()
    assert.equal(counters.length, 1)
    assert.ok(!JSON.stringify(counters).includes('0123456789'))
    await app.smartRateLimit.reset(key ?? '')
    assert.deepEqual(await statuses(1, '/', asking), [200])
  })

  test('a rule of several kinds is exported, imported and reverted as it was written, and a wrong one is refused', async (t) => {
    const database = await openDatabase(t, provider)
    const { app } = await start(t, database, {})
    const { rules, client } = app.smartRateLimit
    const key = `header:${'a'.repeat(80)}+header:${'b'.repeat(80)}+cookie:${'c'.repeat(72)}`
    assert.equal(key.length, 255)
    const rule = await client.rateLimitRule.create({ data: { name: 'a', pathPattern: '/', rate: '1/m', key } })
    assert.equal(rule.key, key)
    await client.rateLimitRule.update({ where: { name: 'a' }, data: { key: 'all' } })
    const [change] = await rules.history('a')
    assert.deepEqual([change?.before?.key, change?.after?.key], [key, 'all'])
    await rules.revert(change?.id ?? 0)
    assert.equal((await client.rateLimitRule.findUnique({ where: { name: 'a' } }))?.key, key)
    const document = await rules.export()
    assert.equal(document.rules[0]?.key, key)
    const imported = { ...document, rules: document.rules.map((entry) => ({ ...entry, key: 'ip+route' })) }
    await rules.import(imported, { dryRun: false })
    assert.equal((await client.rateLimitRule.findUnique({ where: { name: 'a' } }))?.key, 'ip+route')
    await assert.rejects(client.rateLimitRule.update({ where: { name: 'a' }, data: { key: 'ip+ip' } }), /twice/)
  })
})

test('limits of routes, the default limit and prefixes take the same kinds, also in Redis', {
  skip: redisMissing,
}, async (t) => {
  const namespace = `keys-${randomUUID()}`
  const { statuses, app } = await startApp(t, {
    database: null,
    plugin: {
      redis: REDIS_URL,
      namespace,
      middleware: { backend: 'redis', defaultRate: '2/h', rateLimits: { '/p/': '1/h' }, key: 'header:x-a+ip' },
    },
    routes: (scope) => {
      scope.get('/*', async () => 'ok')
      const onRequest = scope.smartRateLimit.limit({ rate: '1/h', key: 'cookie:sid+route' })
      scope.get('/limited/:id', { onRequest, config: { smartRateLimit: false } }, async () => 'ok')
    },
  })
  const asking = (a: string, from: string) => ({ headers: { 'x-a': a }, from })
  assert.deepEqual(await statuses(3, '/', asking('1', ALICE)), [200, 200, 429])
  assert.deepEqual(await statuses(3, '/', asking('1', BOB)), [200, 200, 429])
  assert.deepEqual(await statuses(2, '/p/x', asking('1', BOB)), [200, 429])
  const cookie = (sid: string) => ({ headers: { cookie: `sid=${sid}` } })
  assert.deepEqual(await statuses(2, '/limited/1', cookie('a')), [200, 429])
  assert.deepEqual(await statuses(2, '/limited/2', cookie('b')), [200, 429])
  await app.smartRateLimit.reset(`1|${BOB}`)
  assert.deepEqual(await statuses(1, '/', asking('1', BOB)), [200])
  assert.deepEqual(await statuses(1, '/p/x', asking('1', BOB)), [200])
  await app.smartRateLimit.reset('a|/limited/:id')
  assert.deepEqual(await statuses(1, '/limited/1', cookie('a')), [200])
})

test('a user among several kinds without any source of users is warned about once', async (t) => {
  const { statuses, log } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '1/h', key: 'user+route' } },
  })
  assert.deepEqual(await statuses(2, '/', { from: ALICE }), [200, 429])
  assert.deepEqual(await statuses(1, '/', { from: BOB }), [200])
  const warnings = log.filter(({ level, msg }) => level === WARN && msg.includes('no request has a user'))
  assert.equal(warnings.length, 1)
})
