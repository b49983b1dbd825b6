/** The identity of a client, by user and by header: no client can pose as another one. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { RateLimitOptions, RateLimitUser } from '../../src/index.js'
import { type AppOptions, openDatabase, startApp, WARN } from '../support/build-app.js'
import { forAnyDatabase } from '../support/databases.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'
const asUser = (id: number | string) => ({ headers: { authorization: String(id) } })

function userOfHeader({ headers }: { headers: { authorization?: string | undefined } }): RateLimitUser | null {
  return headers.authorization === undefined ? null : { id: Number(headers.authorization) }
}

forAnyDatabase((provider) => {
  test("key: 'user' counts a user over all addresses, two users on one address apart, and anonymous ones by address", async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, app } = await startApp(t, {
      database,
      plugin: { logEvents: true, user: userOfHeader, middleware: { defaultRate: '2/h', key: 'user' } },
    })

    assert.deepEqual(await statuses(1, '/', { ...asUser(7), from: ALICE }), [200])
    assert.deepEqual(await statuses(2, '/', { ...asUser(7), from: BOB }), [200, 429])
    assert.deepEqual(await statuses(2, '/', { ...asUser(8), from: BOB }), [200, 200])
    assert.deepEqual(await statuses(3, '/', { from: BOB }), [200, 200, 429])

    await app.smartRateLimit.events.flush()
    const seen = await database.client.rateLimitEvent.groupBy({
      by: ['key', 'userId', 'clientIp'],
      _count: true,
      orderBy: { key: 'asc' },
    })
    assert.deepEqual(
      seen.map(({ key, userId, clientIp, _count }) => [key, userId === null ? null : Number(userId), clientIp, _count]),
      [
        [`ip:${BOB}`, null, BOB, 3],
        ['user:7', 7, null, 3],
        ['user:8', 8, null, 2],
      ],
    )
  })

  test('a user whose id differs from another one by blanks alone has a counter of its own', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses } = await startApp(t, {
      database,
      plugin: {
        user: ({ headers }) => ({ id: decodeURIComponent(String(headers['x-user'])) }),
        middleware: { defaultRate: '1/h', key: 'user' },
      },
    })

    for (const id of ['bob', 'bob%20', '%EF%BB%BFbob', 'bob%C2%A0']) {
      assert.deepEqual(await statuses(2, '/', { headers: { 'x-user': id } }), [200, 429], id)
    }
  })

  test('the user option may be async', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses } = await startApp(t, {
      database,
      plugin: {
        user: async (request) => {
          await new Promise((resolve) => setImmediate(resolve))
          return userOfHeader(request)
        },
        middleware: { defaultRate: '1/h', key: 'user' },
      },
    })

    assert.deepEqual(await statuses(2, '/', asUser(7)), [200, 429])
    assert.deepEqual(await statuses(2, '/', asUser(8)), [200, 429])
  })

  test('a user option that throws, or rejects, makes the client anonymous and is logged once', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, log } = await startApp(t, {
      database,
      plugin: {
        user: ({ url }) => {
          if (url === '/throws') throw new Error('no session store')
          return Promise.reject(new Error('no session store'))
        },
        middleware: { defaultRate: '2/h', key: 'user' },
      },
    })

    assert.deepEqual(await statuses(2, '/throws'), [200, 200])
    assert.deepEqual(await statuses(1, '/rejects'), [429])
    assert.equal(log.filter(({ msg }) => msg.includes('no session store')).length, 1)
  })

  test('without the option the user is request.user, as an earlier hook left it', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, app, log } = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { defaultRate: '1/h', key: 'user' } },
      before: (app) => {
        app.decorateRequest('user', null)
        app.addHook('onRequest', async (request) => {
          Object.assign(request, { user: userOfHeader(request) })
        })
      },
    })

    assert.deepEqual(await statuses(2, '/', asUser(7)), [200, 429])
    assert.deepEqual(await statuses(2, '/', asUser(8)), [200, 429])
    await app.smartRateLimit.events.flush()
    assert.equal(await database.client.rateLimitEvent.count({ where: { key: 'user:8', userId: 8 } }), 2)
    assert.deepEqual(log, [])
  })

  test('a request.user that throws counts as no user: the address is limited, by rules too', async (t) => {
    const database = await openDatabase(t, provider)
    const before: AppOptions['before'] = (app) => {
      app.decorateRequest('user', {
        getter() {
          throw new Error('no session yet')
        },
      })
    }
    for (const key of ['ip', 'user']) {
      const plugin = { namespace: key, logEvents: true, middleware: { defaultRate: '1/h', key } }
      const { statuses } = await startApp(t, { database, before, plugin })
      assert.deepEqual(await statuses(2, '/'), [200, 429], key)
    }
  })

  test('a user whose id throws counts as no user, with counters in the database and in memory', async (t) => {
    const user = () => ({
      get id(): string {
        throw new Error('not loaded')
      },
    })
    for (const database of [await openDatabase(t, provider), null]) {
      const { statuses } = await startApp(t, {
        database,
        plugin: { logEvents: database !== null, user, middleware: { defaultRate: '1/h', key: 'user' } },
      })
      assert.deepEqual(await statuses(2, '/'), [200, 429])
    }
  })

  test("key: 'user' without any source of users is warned about once, and counts by address", async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, log } = await startApp(t, {
      database,
      plugin: { middleware: { defaultRate: '1/h', key: 'user' } },
    })

    assert.deepEqual(await statuses(2, '/'), [200, 429])
    assert.equal(log.filter(({ level, msg }) => level === WARN && /user/.test(msg)).length, 1)
  })

  test('a user rule without any source of users is warned about once', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, log, app } = await startApp(t, { database, plugin: { useDynamicRules: true } })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'per-user', pathPattern: '^/', rate: '1/h', key: 'user' },
    })

    assert.deepEqual(await statuses(3, '/'), [200, 429, 429])
    assert.equal(log.filter(({ level, msg }) => level === WARN && /user/.test(msg)).length, 1)
  })

  test("key: 'header:X-Api-Key' counts per value; a missing or blank header counts by address", async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses } = await startApp(t, {
      database,
      plugin: { middleware: { defaultRate: '1/h', key: 'header:X-Api-Key' } },
    })

    assert.deepEqual(await statuses(2, '/', { from: ALICE, headers: { 'x-api-key': 'one' } }), [200, 429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-api-key': ' one ' } }), [429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-api-key': 'two' } }), [200])
    assert.deepEqual(await statuses(1, '/', { from: ALICE }), [200])
    assert.deepEqual(await statuses(1, '/', { from: ALICE, headers: { 'x-api-key': '   ' } }), [429])
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers: { 'x-api-key': '' } }), [200])
  })

  test("a header that spells another client's address or user:7 never meets that client's counter", async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, app } = await startApp(t, {
      database,
      plugin: { logEvents: true, useDynamicRules: true, user: userOfHeader, middleware: { defaultRate: '1/h' } },
    })
    const { client } = app.smartRateLimit
    await client.rateLimitRule.createMany({
      data: [
        { name: 'keys', pathPattern: '^/keys', rate: '1/h', key: 'header:x-api-key' },
        { name: 'users', pathPattern: '^/users', rate: '1/h', key: 'user' },
      ],
    })
    const spelling = (value: string) => ({ from: BOB, headers: { 'x-api-key': value } })

    // A client without a header is counted by address, and Bob's header spells that address in every way he knows.
    for (const value of [ALICE, `ip:${ALICE}`, 'user:7', 'header:x', `keys:${ALICE}`, `rule:keys:${ALICE}`]) {
      assert.deepEqual(await statuses(2, '/keys', spelling(value)), [200, 429], value)
    }
    assert.deepEqual(await statuses(2, '/keys', { from: ALICE }), [200, 429])
    assert.deepEqual(await statuses(2, '/users', { ...asUser(7), from: ALICE }), [200, 429])
    assert.deepEqual(await statuses(2, '/static', { from: ALICE }), [200, 429])

    await app.smartRateLimit.events.flush()
    const keys = await client.rateLimitEvent.findMany({ distinct: ['key'], select: { key: true } })
    const logged = keys.map(({ key }) => key)
    for (const key of [`rule:keys:${ALICE}`, 'rule:users:user:7', `ip:${ALICE}`]) assert.ok(logged.includes(key), key)
  })

  test("a static header key that spells user:7 or an address stays apart from 'user' and 'ip' counters of the same database", async (t) => {
    const database = await openDatabase(t, provider)
    const start = (key: string) =>
      startApp(t, { database, plugin: { user: userOfHeader, middleware: { defaultRate: '1/h', key } } })
    const [byIp, byUser, byHeader] = [await start('ip'), await start('user'), await start('header:x-api-key')]

    assert.deepEqual(await byHeader.statuses(2, '/', { headers: { 'x-api-key': 'user:7' } }), [200, 429])
    assert.deepEqual(await byHeader.statuses(2, '/', { headers: { 'x-api-key': `ip:${ALICE}` } }), [200, 429])
    assert.deepEqual(await byHeader.statuses(2, '/', { headers: { 'x-api-key': ALICE } }), [200, 429])
    assert.deepEqual(await byUser.statuses(2, '/', asUser(7)), [200, 429])
    assert.deepEqual(await byIp.statuses(2, '/', { from: ALICE }), [200, 429])
  })

  test('a header, and a user, that spell how a longer one is stored have counters of their own', async (t) => {
    const database = await openDatabase(t, provider)
    const user: RateLimitOptions['user'] = ({ headers }) =>
      headers['x-user'] === undefined ? null : { id: String(headers['x-user']) }
    const long = `${'k'.repeat(100)}:${'v'.repeat(300)}`
    for (const [kind, header] of [
      ['header:x-api-key', 'x-api-key'],
      ['user', 'x-user'],
    ] as const) {
      const plugin: RateLimitOptions = { user, middleware: { defaultRate: '1/h', key: kind } }
      const { statuses } = await startApp(t, { database, plugin })
      const asked = (value: string) => statuses(2, '/', { headers: { [header]: value } })
      assert.deepEqual(await asked(long), [200, 429], kind)
      const [{ key } = { key: '' }] = await database.client.rateLimitCounter.findMany({
        where: { key: { startsWith: `default|${kind}:k` } },
      })
      const stored = key.slice(`default|${kind}:`.length)
      const hash = createHash('sha256').update(long, 'utf16le').digest('hex')
      assert.equal(stored, `${long.slice(0, 63)}~${hash}`)
      for (const visible of [60, 63, 190]) {
        for (const mark of '#~') {
          const spelling = `${long.slice(0, visible)}${mark}${hash}`
          assert.deepEqual(await asked(spelling), [200, 429], `${kind} ${mark} ${visible}`)
        }
      }
    }
  })

  test('a header called like what every object has is counted per value; without it, by address', async (t) => {
    const database = await openDatabase(t, provider)
    const plugin = { useDynamicRules: true, middleware: { ceiling: '1000/h' } }
    const { statuses, app, log } = await startApp(t, { database, plugin })
    const names = ['constructor', 'hasOwnProperty', 'toString', 'valueOf', '__defineGetter__', '0', 'Set-Cookie']
    await app.smartRateLimit.client.rateLimitRule.createMany({
      data: names.map((name, place) => ({
        name,
        pathPattern: `^/${place}$`,
        rate: '1/h',
        key: `header:${name}`,
      })),
    })
    for (const [place, name] of names.entries()) {
      assert.deepEqual(await statuses(2, `/${place}`, { from: ALICE }), [200, 429], `without ${name}`)
      assert.deepEqual(await statuses(1, `/${place}`, { from: BOB }), [200], `without ${name}`)
      for (const value of ['a', 'b']) {
        const asked = { from: ALICE, headers: { [name]: value } }
        assert.deepEqual(await statuses(2, `/${place}`, asked), [200, 429], `${name}: ${value}`)
      }
    }
    const twice = { from: ALICE, headers: { 'set-cookie': ['a', 'c'] } }
    assert.deepEqual(await statuses(2, `/${names.indexOf('Set-Cookie')}`, twice), [200, 429], 'a header sent twice')
    assert.deepEqual(log, [])
  })

  test('hashHeaderKeys keeps a secret header out of the tables, and still distinguishes clients', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, app } = await startApp(t, {
      database,
      plugin: {
        logEvents: true,
        hashHeaderKeys: true,
        hashSecret: 'a secret of the host, long enough',
        middleware: { defaultRate: '1/h', key: 'header:x-api-key' },
      },
    })

    assert.deepEqual(await statuses(2, '/', { headers: { 'x-api-key': 'sk_live_0123456789' } }), [200, 429])
    assert.deepEqual(await statuses(2, '/', { headers: { 'x-api-key': 'sk_live_9876543210' } }), [200, 429])
    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    const counters = await database.client.rateLimitCounter.findMany()
    for (const { key } of [...events, ...counters]) assert.doesNotMatch(key, /0123456789|9876543210/)
    assert.equal(new Set(events.map(({ key }) => key)).size, 2)
    assert.match(events[0]?.key ?? '', /sk_l/)
  })
})

test('a key function may answer a number', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '1/m', key: ({ headers }) => Number(headers['x-user']) } },
  })
  const asked = (user: string) => statuses(2, '/', { headers: { 'x-user': user } })
  assert.deepEqual(
    [await asked('7'), await asked('8')],
    [
      [200, 429],
      [200, 429],
    ],
  )
})
