/** Writes of rules and overrides, through every call: all errors are reported at once, and nothing is written. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openDatabase } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { refusalOf } from '../support/refusal.js'

/** A busy machine is no reason to give a transaction up. */
const PATIENT = { timeout: 60_000, maxWait: 60_000 }

const GOOD = { name: 'api', pathPattern: '^/api/', rate: '2/m' }

forEachDatabase((provider) => {
  test('a batch with three wrong rows names them, and writes none', async (t) => {
    const { rules } = await openRules(t, provider)
    const data = [
      GOOD,
      { ...GOOD, name: 'b', rate: 'x' },
      { ...GOOD, name: 'c', pathPattern: '(', key: 'cookie' },
      { ...GOOD, name: 'd' },
      { ...GOOD, name: 'e:e' },
    ]

    for (const attempt of [() => rules.createMany({ data }), () => rules.createManyAndReturn({ data })]) {
      const { rows, errors, message } = await refusalOf(attempt())
      assert.deepEqual(
        rows.map(({ index, name, errors: wrong }) => [index, name, Object.keys(wrong)]),
        [
          [1, 'b', ['rate']],
          [2, 'c', ['pathPattern', 'key']],
          [4, 'e:e', ['name']],
        ],
      )
      assert.deepEqual(Object.keys(errors).sort(), ['key', 'name', 'pathPattern', 'rate'])
      assert.match(message, /row 2 \("b"\): rate: .*row 3 \("c"\): pathPattern: .*row 5/)
    }
    assert.equal(await rules.count(), 0)
  })

  test('an update is checked together with the stored row: it may mend a broken one, not leave it broken', async (t) => {
    const { rules, run } = await openRules(t, provider)
    await rules.createMany({ data: [GOOD, { ...GOOD, name: 'whole' }] })
    await run(`UPDATE rate_limit_rule SET rate = 'soon', key = 'cookie' WHERE name = 'api'`)
    const where = { name: 'api' }

    const attempts = [
      () => rules.update({ where, data: { priority: 1 } }),
      () => rules.update({ where, data: { rate: '3/m' } }),
      () => rules.upsert({ where, create: GOOD, update: { priority: 1 } }),
    ]
    assert.deepEqual(
      (await Promise.all(attempts.map((attempt) => refusalOf(attempt())))).map(({ errors }) => Object.keys(errors)),
      [['rate', 'key'], ['key'], ['rate', 'key']],
    )
    for (const attempt of [
      () => rules.updateMany({ data: { priority: 1, method: 'GRAB' } }),
      () => rules.updateManyAndReturn({ data: { priority: 1, method: 'GRAB' } }),
    ]) {
      const { errors, rows } = await refusalOf(attempt())
      assert.deepEqual(Object.keys(errors).sort(), ['key', 'method', 'rate'])
      assert.deepEqual(
        rows.map(({ name, errors: wrong }) => [name, Object.keys(wrong)]),
        [['api', ['rate', 'key']]],
      )
    }
    assert.deepEqual(await rules.findMany({ where: { priority: 1 } }), [])

    await rules.update({ where, data: { rate: { set: '3/m' }, key: 'user', priority: { increment: 5 } } })
    assert.equal((await rules.findUnique({ where }))?.priority, 5)
    await assert.rejects(rules.update({ where: { name: 'nobody' }, data: { priority: 1 } }), { code: 'P2025' })
    const overflow = await refusalOf(rules.update({ where, data: { priority: { increment: 2 ** 31 - 1 } } }))
    assert.deepEqual(Object.keys(overflow.errors), ['priority'])
    // Prisma takes what is undefined for absent.
    const hidden = { set: undefined, increment: 2 ** 31 - 1 }
    assert.deepEqual(
      Object.keys((await refusalOf(rules.update({ where, data: { priority: hidden as never } }))).errors),
      ['priority'],
    )
  })

  test('an update inside a transaction is checked with what the transaction wrote before', async (t) => {
    const { rules, client } = await openRules(t, provider)

    await client.$transaction(async (transaction) => {
      await transaction.rateLimitRule.create({ data: GOOD })
      await transaction.rateLimitRule.update({ where: { name: 'api' }, data: { priority: { increment: 3 } } })
      await refusalOf(
        transaction.rateLimitRule.update({
          where: { name: 'api' },
          data: { priority: { increment: 2_147_483_645 } },
        }),
      )
    }, PATIENT)
    assert.equal((await rules.findUnique({ where: { name: 'api' } }))?.priority, 3)
  })

  test('an override is kept in its one spelling, and refused with all that is wrong with it', async (t) => {
    const { overrides, clock } = await openRules(t, provider)
    const future = new Date(clock.now() + 60_000)
    const spellings = {
      'ip:203.0.113.7': 'ip:203.0.113.7',
      'ip:203.0.113.8/32': 'ip:203.0.113.8',
      'ip:::ffff:203.0.113.9': 'ip:203.0.113.9',
      'ip:::ffff:10.0.0.0/104': 'ip:10.0.0.0/8',
      'ip:2001:DB8:0::/32': 'ip:2001:db8::/32',
      'ip:2001:db8::1/128': 'ip:2001:db8::1',
      'user: 7 ': 'user:7',
    }
    for (const [client, stored] of Object.entries(spellings)) {
      assert.equal((await overrides.create({ data: { client, effect: 'deny', expiresAt: future } })).client, stored)
    }
    await assert.rejects(overrides.create({ data: { client: 'user:7', effect: '5/m' } }), { code: 'P2002' })
    await overrides.create({ data: { client: 'user:7', effect: '5/m', pathPattern: '^/api/' } })
    const { effect, algorithm, pathPattern, expiresAt, note } = await overrides.findFirstOrThrow({
      where: { client: 'user:7', pathPattern: '^/api/' },
    })
    assert.deepEqual([effect, algorithm, pathPattern, expiresAt, note], ['5/m', 'fixed_window', '^/api/', null, ''])

    const wrong = {
      client: 'ip:10.1.2.3/8',
      effect: 'ban',
      algorithm: 'dice',
      pathPattern: '(?!x)',
      expiresAt: new Date(clock.now()),
      note: 'a\0b',
    }
    const { errors, message } = await refusalOf(overrides.create({ data: wrong }))
    assert.deepEqual(Object.keys(errors).sort(), Object.keys(wrong).sort())
    assert.match(message, /^Invalid override: /)
    assert.match(errors.client ?? '', /give 10\.0\.0\.0\/8 or 10\.1\.2\.3/)
    for (const client of ['203.0.113', 'ip:', 'ip:300.1.1.1', 'ip:fe80::1%eth0', 'ip:10.0.0.0/33', 'user:', 'x:7']) {
      assert.deepEqual(Object.keys((await refusalOf(overrides.create({ data: { client, effect: 'deny' } }))).errors), [
        'client',
      ])
    }
    // None of these is a moment that both databases can keep.
    const noMoments = [
      '2030-02-31T00:00:00Z',
      '2030-01-01T00:00',
      '2030-01-01T23:59:60Z',
      '9999-12-31T23:59:59-01:00',
      new Date(8.64e15),
      new Date(Number.NaN),
    ]
    for (const expiresAt of noMoments) {
      const refusal = await refusalOf(overrides.updateMany({ data: { expiresAt } }))
      assert.deepEqual(Object.keys(refusal.errors), ['expiresAt'], String(expiresAt))
    }
    await overrides.updateMany({ where: { client: 'user:7' }, data: { expiresAt: new Date(clock.now() - 1) } })
    assert.equal(await overrides.count(), 8)
  })

  test('every write of an override takes a duration instead of the expiry, and never both', async (t) => {
    const { overrides, client, clock } = await openRules(t, provider)
    const brief = { effect: 'deny', for: '2h' }
    const where = (name: string) => ({ client_pathPattern: { client: name, pathPattern: '' } })
    const ends = async () => {
      const rows = await overrides.findMany({ orderBy: { client: 'asc' } })
      return rows.map(({ expiresAt }) => expiresAt && (expiresAt.getTime() - clock.now()) / 60_000)
    }

    await overrides.create({ data: { client: '203.0.113.1', ...brief } })
    await overrides.createMany({ data: [{ client: '203.0.113.2', ...brief }] })
    await overrides.createManyAndReturn({ data: { client: '203.0.113.3', effect: 'deny', for: '2 hours' } })
    await client.$transaction((transaction) =>
      transaction.rateLimitOverride.upsert({
        where: where('ip:203.0.113.4'),
        create: { client: '203.0.113.4', ...brief },
        update: {},
      }),
    )
    assert.deepEqual(await ends(), [120, 120, 120, 120])
    await overrides.update({ where: where('ip:203.0.113.1'), data: { for: '30m' } })
    await overrides.upsert({
      where: where('ip:203.0.113.2'),
      create: { client: '203.0.113.2', ...brief },
      update: { for: '15m' },
    })
    assert.deepEqual(await ends(), [30, 15, 120, 120])
    await overrides.updateMany({ data: { for: '7d' } })
    assert.deepEqual(await ends(), [10_080, 10_080, 10_080, 10_080])

    const data = { client: 'nobody', effect: 'deny', for: 'soon' }
    for (const attempt of [() => overrides.create({ data }), () => overrides.createMany({ data })]) {
      const { errors } = await refusalOf(attempt())
      assert.deepEqual(Object.keys(errors), ['client', 'for'])
      assert.equal(errors.for, '"soon" is not a valid duration: give 30m, 2h or 7d, at most 366d')
    }
    const both = { for: '2h', expiresAt: new Date(clock.now() + 60_000) }
    for (const attempt of [
      () => overrides.create({ data: { client: 'user:7', effect: 'deny', ...both } }),
      () => overrides.update({ where: where('ip:203.0.113.1'), data: both }),
      () => overrides.updateMany({ data: both }),
    ]) {
      assert.match((await refusalOf(attempt())).errors.for ?? '', /is given with "expiresAt": give one of them/)
    }
    assert.deepEqual(await ends(), [10_080, 10_080, 10_080, 10_080])
  })
})

async function openRules(t: TestContext, provider: Provider) {
  const clock = fakeClock()
  const { client, database } = await openDatabase(t, provider, clock)
  return {
    clock,
    client,
    rules: client.rateLimitRule,
    overrides: client.rateLimitOverride,
    run: (sql: string) => database.execute(sql.replace('rate_limit_rule', database.dialect.table('rate_limit_rule'))),
  }
}
