/** Clients that a rule keeps refusing are banned: denied everything, for a time, by an override that the rule writes. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { type FakeClock, fakeClock } from '../support/clock.js'
import { countStatements } from '../support/count-statements.js'
import { forAnyDatabase, type Provider, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { refusalOf } from '../support/refusal.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'
const SIGN_IN = { name: 'sign-in', pathPattern: '^/sign-in', rate: '2/m', banAfter: 3, banFor: '2h' }
const ALGORITHMS = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const
/** Asks for the count of an hour. */
const HOURLY = { algorithm: 'fixed_window', limit: 9, periodMs: HOUR_MS } as const
/** What a client gets from the beginning of a window on. */
const UNTIL_BANNED = [200, 200, 429, 429, 429, 403, 403]

forAnyDatabase((provider) => {
  for (const backend of ['database', 'memory'] as const) {
    for (const algorithm of ALGORITHMS) {
      test(`after three refusals a client is denied everything for two hours: ${algorithm}, counters in ${backend}`, async (t) => {
        const { rules, statuses, banned, clock } = await start(t, provider, { middleware: { backend } })
        await rules.create({ data: { ...SIGN_IN, algorithm } })
        assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), UNTIL_BANNED)
        assert.deepEqual(await statuses(3, '/sign-in', { from: BOB }), [200, 200, 429])
        await banned(ALICE)
        clock.advance(2 * HOUR_MS - 1)
        assert.deepEqual(await statuses(1, '/', { from: ALICE }), [403])
        clock.advance(1)
        assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), UNTIL_BANNED)
      })
    }
  }

  test('a ban is an override like any other, and names its rule in the list and in the history', async (t) => {
    const { app, rules, overrides, statuses, banned, clock } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    await statuses(5, '/sign-in', { from: ALICE })
    const { createdAt, updatedAt } = await banned(ALICE)
    assert.deepEqual([createdAt.getTime(), updatedAt.getTime()], [clock.now(), clock.now()])
    const [change] = await app.smartRateLimit.rules.history(`ip:${ALICE}`)
    assert.deepEqual([change?.action, change?.source, change?.actor], ['create', 'ban', 'rule:sign-in'])
    const exported = await app.smartRateLimit.rules.export()
    assert.deepEqual(exported.overrides, [
      {
        client: `ip:${ALICE}`,
        effect: 'deny',
        algorithm: 'fixed_window',
        pathPattern: '',
        expiresAt: new Date(clock.now() + 2 * HOUR_MS).toISOString(),
        note: 'banned by rule sign-in',
      },
    ])

    await overrides.updateMany({ data: { effect: '7/m' } })
    assert.deepEqual(await statuses(1, '/sign-in', { from: ALICE }), [200])
    const [edit] = await app.smartRateLimit.rules.history(`ip:${ALICE}`)
    await app.smartRateLimit.rules.revert(edit?.id ?? 0)
    assert.deepEqual(await statuses(1, '/sign-in', { from: ALICE }), [403])
  })

  test('a server whose clock is a month ahead bans nobody for the others', async (t) => {
    const ahead = await start(t, provider, {}, undefined, fakeClock(fakeClock().now() + 30 * DAY_MS))
    const { database } = ahead
    await ahead.rules.create({ data: SIGN_IN })
    await ahead.statuses(5, '/sign-in', { from: ALICE })
    await ahead.banned(ALICE)
    const clock = fakeClock()
    const right = await start(t, provider, { database: database.url, schema: database.schema }, { database, clock })
    assert.deepEqual(await right.statuses(7, '/sign-in', { from: ALICE }), UNTIL_BANNED)
    const where = { client: `ip:${ALICE}`, expiresAt: new Date(clock.now() + 2 * HOUR_MS) }
    await eventually('the ban is replaced', async () => (await right.overrides.count({ where })) === 1)
  })

  test('an operator who deletes a ban lets the client start afresh', async (t) => {
    const { rules, overrides, statuses, banned, counted } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    for (const admitted of [[200, 200], [], []]) {
      const answers = [...admitted, 429, 429, 429, 403]
      assert.deepEqual(await statuses(answers.length, '/sign-in', { from: ALICE }), answers)
      await banned(ALICE)
      await counted(0)
      await overrides.deleteMany()
    }
  })

  test('a denial is logged with the client, the policy and the outcome of any override', async (t) => {
    const { app, database, rules, statuses } = await start(t, provider, { logEvents: true, user: userOfHeader })
    await rules.create({ data: { ...SIGN_IN, key: 'user' } })
    const headers = { authorization: '7' }
    assert.deepEqual(await statuses(6, '/sign-in', { from: ALICE, headers }), [200, 200, 429, 429, 429, 403])
    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.slice(-2).map(({ key, ruleName, client, policy, outcome, count, limit, allowed }) => {
        return [key, ruleName, client, policy, outcome, count, limit, allowed]
      }),
      [
        ['rule:sign-in:user:7', 'sign-in', 'user:7', 'sign-in', 'over_limit', 5, 2, false],
        ['user:7', '', 'user:7', 'override', 'denied', 1, 0, false],
      ],
    )
  })

  test('a rule by user bans the user at every address, and a stranger by address', async (t) => {
    const { rules, statuses, banned } = await start(t, provider, { user: userOfHeader })
    await rules.create({ data: { ...SIGN_IN, key: 'user' } })
    const headers = { authorization: '7' }
    assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE, headers }), UNTIL_BANNED)
    assert.equal((await banned('7', 'user')).note, 'banned by rule sign-in')
    assert.deepEqual(await statuses(1, '/', { from: BOB, headers }), [403])
    assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), UNTIL_BANNED)
    await banned(ALICE)
  })

  test('a user whose id no override can spell is not banned, nor is anybody else, and that is logged once', async (t) => {
    const { rules, overrides, statuses, log } = await start(t, provider, { user: userOfHeader })
    await rules.create({ data: { ...SIGN_IN, key: 'user' } })
    for (const authorization of ['%207', 'x'.repeat(300), '%00']) {
      const headers = { authorization }
      assert.deepEqual(await statuses(7, '/sign-in', { headers }), [200, 200, 429, 429, 429, 429, 429], authorization)
    }
    assert.equal(await overrides.count(), 0)
    assert.deepEqual(
      log.map(({ msg }) => msg.slice(0, 45)),
      ['Rate limit rule cannot ban "user: 7", for whi'],
    )
  })

  test('an IPv6 client is banned as the network that is counted', async (t) => {
    const { rules, statuses, banned } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    assert.deepEqual(await statuses(6, '/sign-in', { from: '2001:db8:1:2::1' }), UNTIL_BANNED.slice(0, 6))
    await banned('2001:db8:1:2::/64')
    assert.deepEqual(await statuses(1, '/', { from: '2001:db8:1:2:ffff::' }), [403])
    assert.deepEqual(await statuses(1, '/', { from: '2001:db8:1:3::1' }), [200])
  })

  test('nobody is banned who is let through somewhere, by a list or an override', async (t) => {
    const { rules, overrides, statuses, banned } = await start(t, provider, {
      middleware: { allowList: ['2001:db8:1:2::5'] },
    })
    await rules.create({ data: SIGN_IN })
    await overrides.createMany({
      data: [
        { client: `ip:${ALICE}`, effect: 'allow', pathPattern: '^/health' },
        { client: 'ip:198.51.100.0/24', effect: 'allow', pathPattern: '^/health' },
        { client: 'ip:2001:db8:1:3::9', effect: 'allow' },
      ],
    })
    for (const from of [ALICE, '198.51.100.7', '2001:db8:1:2::1', '2001:db8:1:3::1']) {
      assert.deepEqual(await statuses(7, '/sign-in', { from }), [200, 200, 429, 429, 429, 429, 429], from)
    }
    assert.deepEqual(await statuses(6, '/sign-in', { from: BOB }), UNTIL_BANNED.slice(0, 6))
    await banned(BOB)
    assert.equal(await overrides.count({ where: { effect: 'deny' } }), 1)
  })

  test('a ban takes the place of an override that has expired, and its id', async (t) => {
    const { app, rules, overrides, statuses, banned, clock } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    const data = { client: `ip:${ALICE}`, effect: '20/m', note: 'old', expiresAt: new Date(clock.now() + SECOND_MS) }
    const { id } = await overrides.create({ data })
    clock.advance(MINUTE_MS)
    assert.deepEqual(await statuses(6, '/sign-in', { from: ALICE }), UNTIL_BANNED.slice(0, 6))
    assert.equal((await banned(ALICE)).id, id)
    const [change] = await app.smartRateLimit.rules.history()
    assert.deepEqual([change?.action, change?.source, change?.actor], ['update', 'ban', 'rule:sign-in'])
    assert.deepEqual([change?.before?.note, change?.after?.note], ['old', 'banned by rule sign-in'])
  })

  test('refusals count within the longest window of the rate, whatever the others do', async (t) => {
    const { rules, statuses, clock } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, rate: '1/m, 100/h' } })
    for (let minute = 0; minute < 3; minute++) {
      assert.deepEqual(await statuses(2, '/sign-in', { from: ALICE }), [200, 429])
      clock.advance(MINUTE_MS)
    }
    assert.deepEqual(await statuses(1, '/sign-in', { from: ALICE }), [403])
    assert.deepEqual(await statuses(3, '/sign-in', { from: BOB }), [200, 429, 429])
    clock.advance(HOUR_MS - (clock.now() % HOUR_MS))
    assert.deepEqual(await statuses(4, '/sign-in', { from: BOB }), [200, 429, 429, 429])
  })

  test('refusals of a month count until it ends', async (t) => {
    const { rules, overrides, statuses, banned, counted, clock } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, rate: '1/d, 1000/month', banFor: '1h' } })
    // The clock stands at the 15th of January.
    assert.deepEqual(await statuses(3, '/sign-in', { from: ALICE }), [200, 429, 429])
    clock.advance(15 * DAY_MS)
    assert.deepEqual(await statuses(3, '/sign-in', { from: ALICE }), [200, 429, 403])
    await banned(ALICE)
    await counted(0)
    await overrides.deleteMany()
    assert.deepEqual(await statuses(2, '/sign-in', { from: ALICE }), [429, 429])
    clock.advance(2 * DAY_MS)
    assert.deepEqual(await statuses(5, '/sign-in', { from: ALICE }), [200, 429, 429, 429, 403])
  })

  test('failed sign-ins count, and refusals of those ban', async (t) => {
    const { rules, statuses } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, counts: '401' } })
    assert.deepEqual(await statuses(4, '/sign-in/right', { from: ALICE }), [200, 200, 200, 200])
    const answers = [401, 401, 429, 429, 429, 403]
    assert.deepEqual(await statuses(6, '/sign-in/wrong', { from: ALICE }), answers)
  })

  test('a rule that does not block, has no ban, or is asked in code alone bans nobody', async (t) => {
    const { app, rules, statuses, banned } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, block: false } })
    assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), [200, 200, 200, 200, 200, 200, 200])
    const where = { name: SIGN_IN.name }
    await rules.update({ where, data: { block: true, banAfter: 0, banFor: '' } })
    assert.deepEqual(await statuses(4, '/sign-in', { from: ALICE }), [429, 429, 429, 429])
    await rules.update({ where, data: { banAfter: 3, banFor: '1d' } })
    const asked = await app.inject({ url: '/sign-in/asked?times=9', headers: { 'x-forwarded-for': ALICE } })
    assert.deepEqual(asked.json(), Array(9).fill(false))
    assert.deepEqual(await statuses(4, '/sign-in', { from: ALICE }), [429, 429, 429, 403])
    await banned(ALICE)
  })

  test('what a rule refuses bans, also where a ceiling refuses for longer', async (t) => {
    const { rules, statuses, banned } = await start(t, provider, { middleware: { ceiling: '2/d' } })
    await rules.create({ data: SIGN_IN })
    assert.deepEqual(await statuses(6, '/sign-in', { from: ALICE }), [200, 200, 429, 429, 429, 403])
    await banned(ALICE)
  })

  test('a store that does not answer keeps no server from closing', async (t) => {
    const memory = new MemoryStore()
    const backend: Store = {
      concurrency: 1,
      check: async (checks, nowMs) => memory.check(checks, nowMs),
      settle: () => new Promise(() => undefined),
      reset: async (keys) => memory.reset(keys),
      close: () => undefined,
    }
    const { app, rules, statuses, banned } = await start(t, provider, { middleware: { backend }, storeTimeoutMs: 100 })
    await rules.create({ data: SIGN_IN })
    await statuses(5, '/sign-in', { from: ALICE })
    await banned(ALICE)
    await app.close()
  })

  test('what only a ceiling refuses bans nobody', async (t) => {
    const { rules, overrides, statuses } = await start(t, provider, { middleware: { ceiling: '3/h' } })
    await rules.create({ data: { ...SIGN_IN, rate: '100/m' } })
    assert.deepEqual(await statuses(8, '/sign-in', { from: ALICE }), [200, 200, 200, 429, 429, 429, 429, 429])
    assert.equal(await overrides.count(), 0)
  })

  test('a rate of 0 is a trap: its first request bans', async (t) => {
    const { rules, statuses } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, rate: '0/h', banAfter: 1 } })
    assert.deepEqual(await statuses(2, '/sign-in', { from: ALICE }), [429, 403])
  })

  test('a flood over many connections writes one ban, and is denied from then on', async (t) => {
    const { app, rules, request, statuses, banned } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, banAfter: 20 } })
    const answers = await Promise.all(Array.from({ length: 100 }, () => request('/sign-in', { from: ALICE })))
    const times = (status: number) => answers.filter((answer) => answer.status === status).length
    assert.equal(times(200), 2)
    assert.ok(times(429) >= 20 && times(429) + times(403) === 98)
    await banned(ALICE)
    assert.deepEqual(await statuses(2, '/', { from: ALICE }), [403, 403])
    assert.equal((await app.smartRateLimit.rules.history(`ip:${ALICE}`)).length, 1)
  })

  test('another process obeys within two seconds', async (t) => {
    const one = await start(t, provider)
    const other = await start(t, provider, {}, one)
    await one.rules.create({ data: SIGN_IN })
    one.clock.advance(2 * SECOND_MS)
    assert.deepEqual(await other.statuses(1, '/', { from: ALICE }), [200])
    assert.deepEqual(await one.statuses(6, '/sign-in', { from: ALICE }), UNTIL_BANNED.slice(0, 6))
    await one.banned(ALICE)
    one.clock.advance(2 * SECOND_MS)
    assert.deepEqual(await other.statuses(1, '/', { from: ALICE }), [403])
  })

  test('a reset of the client forgets its refusals', async (t) => {
    const { app, rules, statuses, counted } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    assert.deepEqual(await statuses(4, '/sign-in', { from: ALICE }), [200, 200, 429, 429])
    await counted(2)
    await app.smartRateLimit.reset(`rule:sign-in:${ALICE}`)
    assert.deepEqual(await statuses(6, '/sign-in', { from: ALICE }), UNTIL_BANNED.slice(0, 6))
  })

  test('with leases a refused client is banned all the same', async (t) => {
    const { rules, statuses } = await start(t, provider, { middleware: { lease: '1s' } })
    await rules.create({ data: { ...SIGN_IN, rate: '10/m' } })
    const answers = await statuses(14, '/sign-in', { from: ALICE })
    assert.deepEqual(answers, [...Array(10).fill(200), 429, 429, 429, 403])
  })

  test('a ban that cannot be written harms no request, is logged once, and is written when that is possible', async (t) => {
    const { database, rules, statuses, banned, log, clock } = await start(t, provider, {
      middleware: { backend: 'memory' },
    })
    await rules.create({ data: SIGN_IN })
    const restore = await failOverrideWrites(database)
    assert.deepEqual(await statuses(5, '/sign-in', { from: ALICE }), UNTIL_BANNED.slice(0, 5))
    await eventually('the failure is logged', () => log.length === 1)
    assert.match(
      log[0]?.msg ?? '',
      /^Rate limit bans cannot be written: refused clients are not banned until they can$/,
    )
    clock.advance(SECOND_MS)
    for (let round = 0; round < 3; round++) {
      await statuses(3, '/sign-in', { from: ALICE })
      clock.advance(SECOND_MS)
    }
    await restore()
    await eventually('the ban is written', async () => {
      clock.advance(SECOND_MS)
      await statuses(1, '/sign-in', { from: ALICE })
      return (await database.client.rateLimitOverride.count()) === 1
    })
    await banned(ALICE)
    assert.equal(log.length, 1)
  })

  test('a store that fails bans by what this process counts, or nobody, as onStoreError says', async (t) => {
    for (const [onStoreError, answers, bans] of [
      ['local', UNTIL_BANNED, 1],
      ['allow', Array(7).fill(200), 0],
      ['deny', Array(7).fill(503), 0],
    ] as const) {
      const fail = async () => Promise.reject(new Error('the store is gone'))
      const backend = { concurrency: 1, check: fail, settle: fail, reset: fail, close: () => undefined }
      const { rules, overrides, statuses, log } = await start(t, provider, { onStoreError, middleware: { backend } })
      await rules.create({ data: SIGN_IN })
      assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), answers, onStoreError)
      if (bans > 0) await eventually('the ban is written', async () => (await overrides.count()) === bans)
      assert.equal(await overrides.count(), bans)
      const logged = log.map(({ msg }) => msg).filter((msg) => !msg.startsWith('Rate limit store unavailable'))
      assert.equal(logged.length, 1, logged.join('\n'))
      assert.match(logged[0] ?? '', /^Rate limit store failed/)
    }
  })

  test('a store without settle is reset instead', async (t) => {
    const memory = new MemoryStore()
    const backend: Store = {
      concurrency: 1,
      check: async (checks, nowMs) => memory.check(checks, nowMs),
      reset: async (keys) => memory.reset(keys),
      close: () => undefined,
    }
    const { rules, overrides, statuses, banned } = await start(t, provider, { middleware: { backend } })
    await rules.create({ data: { ...SIGN_IN, rate: '0/h' } })
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await statuses(4, '/sign-in', { from: ALICE }), [429, 429, 429, 403])
      await banned(ALICE)
      const question = { key: `refusals:sign-in|ip:${ALICE}`, policy: HOURLY, cost: 0 }
      await eventually('the count is 0', () => memory.check([question], fakeClock().now())[0]?.count === 0)
      await overrides.deleteMany()
    }
  })

  test('a flood that is refused from memory is counted to the last request, by few statements', async (t) => {
    const { app, rules, statuses, counted } = await start(t, provider)
    await rules.create({ data: { ...SIGN_IN, banAfter: 1_000 } })
    const headers = { 'x-forwarded-for': '127.0.0.1' }
    assert.deepEqual(await statuses(3, '/sign-in'), [200, 200, 429])
    await counted(1)
    const count = countStatements()
    t.after(() => count.stop())
    const flood = Array.from({ length: 300 }, () => app.inject({ url: '/sign-in', headers }))
    assert.ok((await Promise.all(flood)).every(({ statusCode }) => statusCode === 429))
    await app.inject({ url: '/sign-in', headers })
    count.stop()
    assert.ok(count.of('rate_limit_counter').length <= 6, `${count.of('rate_limit_counter').length} statements`)
    await counted(302)
  })

  test('a rule has at most 10,000 bans in force, which is logged once', long(), async (t) => {
    const { database, rules, overrides, statuses, banned, log, clock } = await start(t, provider)
    await rules.create({ data: SIGN_IN })
    await fillWithBans(database, 9_999, clock.now() + HOUR_MS)
    assert.deepEqual(await statuses(6, '/sign-in', { from: ALICE }), UNTIL_BANNED.slice(0, 6))
    await banned(ALICE)
    await statuses(6, '/sign-in', { from: BOB })
    await eventually('it is logged', () => log.length === 1)
    clock.advance(2 * SECOND_MS)
    assert.deepEqual(await statuses(2, '/sign-in', { from: '203.0.113.9' }), [200, 200])
    await statuses(4, '/sign-in', { from: '203.0.113.9' })
    assert.equal(await overrides.count(), 10_000)
    assert.deepEqual(
      log.map(({ msg }) => msg),
      ['Rate limit rule has 10000 bans in force: it bans no further client until one ends'],
    )
    clock.advance(HOUR_MS)
    await statuses(6, '/sign-in', { from: BOB })
    await banned(BOB)
  })

  test('a rule with a wrong ban is refused with the field, and left out where raw SQL wrote it', async (t) => {
    const { app, rules, database } = await start(t, provider)
    for (const [wrong, field] of [
      [{ banFor: '' }, 'banFor'],
      [{ banFor: 'soon' }, 'banFor'],
      [{ banAfter: 0 }, 'banAfter'],
      [{ banAfter: 1.5 }, 'banAfter'],
      [{ key: 'header:X-Api-Key' }, 'banAfter'],
      [{ key: 'ip+user' }, 'banAfter'],
    ] as const) {
      const { errors } = await refusalOf(rules.create({ data: { ...SIGN_IN, ...wrong } }))
      assert.deepEqual(Object.keys(errors), [field])
    }
    await rules.create({ data: SIGN_IN })
    const where = { name: SIGN_IN.name }
    const { errors } = await refusalOf(rules.update({ where, data: { key: 'route' } }))
    assert.deepEqual(Object.keys(errors), ['banAfter'])
    assert.deepEqual((await app.smartRateLimit.rules.active())[0]?.ban, { after: 3, forMs: 2 * HOUR_MS })
    await database.database.execute(`UPDATE ${database.database.dialect.table('rate_limit_rule')} SET ban_for = 'soon'`)
    await app.smartRateLimit.rules.reload()
    assert.deepEqual(await app.smartRateLimit.rules.active(), [])
  })
})

test('counters in Redis count refusals, too, and start afresh', { skip: redisMissing }, async (t) => {
  const { url, namespace, client } = openRedis(t)
  const { rules, overrides, statuses, banned } = await start(t, 'sqlite', {
    redis: url,
    namespace,
    middleware: { backend: 'redis' },
  })
  await rules.create({ data: SIGN_IN })
  assert.deepEqual(await statuses(7, '/sign-in', { from: ALICE }), UNTIL_BANNED)
  await banned(ALICE)
  await eventually('the count is 0', async () => {
    const [key = ''] = await client.keys(`*${namespace}*refusals*`)
    return (await client.get(key))?.endsWith(' 0') === true
  })
  await overrides.deleteMany()
  assert.deepEqual(await statuses(4, '/sign-in', { from: ALICE }), [429, 429, 429, 403])
})

test('four processes that refuse a client at once write one ban', long(postgresqlMissing), async (t) => {
  const { app, database, rules, clock } = await start(t, 'postgresql')
  await rules.create({ data: { ...SIGN_IN, rate: '2/h', banAfter: 40 } })
  const servers = await Promise.all([1, 2, 3, 4].map(() => startServer(t, database, clock.now())))
  for (let round = 0; round < 4; round++) await Promise.all(servers.map((server) => server.ask(20)))
  await eventually('there is a ban', async () => (await database.client.rateLimitOverride.count()) > 0)
  await Promise.all(servers.map((server) => server.end()))
  const history = await app.smartRateLimit.rules.history('ip:127.0.0.1')
  assert.deepEqual(
    history.map(({ action, source, actor }) => [action, source, actor]),
    [['create', 'ban', 'rule:sign-in']],
  )
  assert.equal(await database.client.rateLimitOverride.count(), 1)
  assert.equal(servers.flatMap((server) => server.answers).filter((status) => status === 200).length, 2)
})

/** @param beside a server whose database and clock are used, too */
async function start(
  t: TestContext,
  provider: Provider,
  plugin: RateLimitOptions = {},
  beside?: { readonly database: TestDatabase; readonly clock: FakeClock },
  clock = beside?.clock ?? fakeClock(),
) {
  const database = beside?.database ?? (await openDatabase(t, provider, clock))
  const own = beside === undefined ? {} : { database: database.url, schema: database.schema }
  const started = await startApp(t, {
    database: beside === undefined ? database : null,
    clock,
    plugin: {
      useDynamicRules: true,
      ...own,
      ...plugin,
      middleware: { backend: 'database', defaultRate: '1000/m', ...plugin.middleware },
    },
    routes: declareRoutes,
  })
  const { rateLimitRule: rules, rateLimitOverride: overrides, rateLimitCounter: counters } = database.client
  return {
    ...started,
    database,
    rules,
    overrides,
    /** Waits until a client's ban is written and in force, and returns the row. */
    async banned(name: string, kind = 'ip') {
      const where = { client: `${kind}:${name}`, effect: 'deny' }
      await eventually('the ban is written', async () => (await overrides.count({ where })) === 1)
      await started.app.smartRateLimit.rules.reload()
      return overrides.findFirstOrThrow({ where })
    },
    /** Waits until so many refusals are counted in all. */
    counted: (refusals: number) =>
      eventually('the refusals are counted', async () => {
        const rows = await counters.findMany({ where: { key: { startsWith: 'refusals:' } } })
        return rows.reduce((sum, { count }) => sum + Number(count), 0) === refusals
      }),
  }
}

function declareRoutes(app: FastifyInstance): void {
  app.get('/*', async () => 'ok')
  app.get('/sign-in/wrong', async (_request, reply) => reply.code(401).send())
  const isLeftAlone = { config: { smartRateLimit: false } } as const
  app.get<{ Querystring: { times: string } }>('/sign-in/asked', isLeftAlone, async (request) => {
    const allowed: unknown[] = []
    for (let time = 0; time < Number(request.query.times); time++) {
      allowed.push((await app.smartRateLimit.check(request))?.allowed)
    }
    return allowed
  })
}

function userOfHeader({ headers: { authorization } }: FastifyRequest): { id: string } | null {
  return authorization === undefined ? null : { id: decodeURIComponent(authorization) }
}

/** Makes every write of overrides fail, as on a disk that is full. */
async function failOverrideWrites({ database }: TestDatabase): Promise<() => Promise<unknown>> {
  const { dialect } = database
  const table = dialect.table('rate_limit_override')
  if (dialect.provider === 'sqlite') {
    await database.execute(
      `CREATE TRIGGER failing BEFORE INSERT ON rate_limit_override BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
    )
    return () => database.execute('DROP TRIGGER failing')
  }
  await database.execute(`ALTER TABLE ${table} ADD CONSTRAINT failing CHECK (effect = 'none') NOT VALID`)
  return () => database.execute(`ALTER TABLE ${table} DROP CONSTRAINT failing`)
}

async function fillWithBans({ database }: TestDatabase, bans: number, expiresAtMs: number): Promise<void> {
  const { dialect } = database
  const rows = Array.from({ length: bans }, (_, place) => [`ip:10.0.${place >> 8}.${place & 255}`])
  // A busy machine takes seconds for all of them, after which a statement is given up.
  while (rows.length > 0) {
    await database.execute(
      `INSERT INTO ${dialect.table('rate_limit_override')} (client, effect, note, expires_at, created_at)
       SELECT ${dialect.jsonField(0, 'text')}, 'deny', 'banned by rule sign-in', ${dialect.fromMs(dialect.whole('$2'))},
         ${dialect.fromMs(`${dialect.whole('$2')} - ${HOUR_MS}`)}
       FROM ${dialect.jsonRows()}`,
      [JSON.stringify(rows.splice(0, 1_000)), expiresAtMs],
    )
  }
}

/** Starts `test/support/banning-server.ts`. */
async function startServer(t: TestContext, { url, schema }: TestDatabase, nowMs: number) {
  const script = modulePath('test/support/banning-server')
  const child: ChildProcess = spawn(process.execPath, [...LOADER, script, url, schema, String(nowMs)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await closed
  })
  const { stdin, stdout } = child
  assert.ok(stdin !== null && stdout !== null)
  const lines = createInterface(stdout)[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, 'ready')
  const answers: number[] = []
  return {
    answers,
    async ask(times: number) {
      stdin.write(`${times}\n`)
      answers.push(...JSON.parse(String((await lines.next()).value)))
    },
    async end() {
      stdin.end()
      await closed
      assert.equal(child.exitCode, 0)
    },
  }
}
