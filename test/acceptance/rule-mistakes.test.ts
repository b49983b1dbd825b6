/** An operator makes mistakes: wrong rules are refused with all that is wrong with them, or skipped, never a 500. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { ERROR, openDatabase, startApp, WARN } from '../support/build-app.js'
import { countStatements } from '../support/count-statements.js'
import { forAnyDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { refusalOf } from '../support/refusal.js'

const GOOD = { name: 'api', pathPattern: '^/api/', rate: '2/m' }

forAnyDatabase((provider) => {
  test('every wrong field of a rule is named at once, and nothing is written', async (t) => {
    const { rules } = await startWithRules(t, provider)
    const wrong = {
      name: 'a:b',
      pathPattern: '[unclosed',
      method: 'GET,FETCH',
      rate: 'not-a-rate',
      key: 'header:',
      algorithm: 'dice',
      priority: 2 ** 31,
    }

    const error = await refusalOf(rules.create({ data: wrong }))

    assert.deepEqual(Object.keys(error.errors).sort(), Object.keys(wrong).sort())
    assert.match(error.errors.method ?? '', /FETCH/)
    assert.match(error.errors.rate ?? '', /not-a-rate/)
    for (const field of Object.keys(wrong)) assert.ok(error.message.includes(field), field)
    assert.equal(await rules.count(), 0)
  })

  test('look-around and back-references are refused by saying that RE2 does not have them', async (t) => {
    const { rules } = await startWithRules(t, provider)

    for (const pathPattern of ['^/(?!public)', '^/(?=x)', '(?<=/)x', '(?<!/)x', '(a)\\1']) {
      const { errors } = await refusalOf(rules.create({ data: { ...GOOD, pathPattern } }))
      assert.deepEqual(Object.keys(errors), ['pathPattern'])
      assert.match(errors.pathPattern ?? '', /RE2/)
    }
  })

  test('an algorithm that does not exist is refused by naming those that do', async (t) => {
    const { rules } = await startWithRules(t, provider)

    for (const algorithm of ['gcra', 'Token_Bucket', '']) {
      const { errors } = await refusalOf(rules.create({ data: { ...GOOD, algorithm } }))
      assert.match(errors.algorithm ?? '', /give fixed_window, sliding_window, token_bucket, leaky_bucket/)
    }
    assert.equal(await rules.count(), 0)
    for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket']) {
      await rules.create({ data: { ...GOOD, name: algorithm, algorithm } })
    }
  })

  test('wrong names, patterns, rates, keys and priorities are refused one by one', async (t) => {
    const { rules } = await startWithRules(t, provider)
    const wrong: Record<string, unknown[]> = {
      name: ['', 'a:b', 'é', 'a\nb', 'x'.repeat(101)],
      pathPattern: ['', 'x'.repeat(256), '(', '*', 'a\0b'],
      method: ['', 'GET,', 'ALL,GET', 'G E T'],
      rate: ['', '10', '10/x', 'abc/m', '10/m/s', 'invalid', '10/0s', '-5/m', '-5/30s', '1.5/m', '5 /m', '10/367d'],
      key: ['', 'cookie', 'header:', 'header:a b', 'header:__proto__', 'IP'],
      priority: [0.5, 2 ** 31, -(2 ** 31) - 1],
    }

    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) {
        const { errors } = await refusalOf(rules.create({ data: { ...GOOD, [field]: value } }))
        assert.deepEqual(Object.keys(errors), [field], `${field}: ${JSON.stringify(value)}`)
      }
    }
    assert.equal(await rules.count(), 0)
  })

  test('a wrong update, updateMany, upsert or createMany changes nothing, and the old rule stays in force', async (t) => {
    const { rules, client, limitOf } = await startWithRules(t, provider)
    await rules.create({ data: GOOD })
    const other = { ...GOOD, name: 'other' }

    const attempts = [
      () => rules.update({ where: { name: 'api' }, data: { rate: 'x' } }),
      () => rules.updateMany({ data: { rate: { set: 'x' } } }),
      () => rules.upsert({ where: { name: 'api' }, create: GOOD, update: { rate: 'x' } }),
      () => rules.upsert({ where: { name: 'other' }, create: { ...other, rate: 'x' }, update: {} }),
      () => rules.createMany({ data: [other, { ...other, name: 'bad', rate: 'x' }] }),
      () =>
        client.$transaction(async (transaction) => {
          await transaction.rateLimitRule.create({ data: other })
          await transaction.rateLimitRule.update({ where: { name: 'other' }, data: { rate: 'x' } })
        }),
    ]
    for (const attempt of attempts) await refusalOf(attempt())

    assert.equal(await rules.count(), 1)
    assert.equal(await limitOf('/api/x'), '2')
  })

  test('a second rule of the same name is refused', async (t) => {
    const { rules, limitOf } = await startWithRules(t, provider)
    await rules.create({ data: GOOD })

    await assert.rejects(rules.create({ data: { ...GOOD, rate: '9/m' } }), { code: 'P2002' })
    assert.equal(await limitOf('/api/x'), '2')
  })

  test('the defaults of a rule are ALL, ip, fixed_window, blocking, active, priority 0', async (t) => {
    const { rules } = await startWithRules(t, provider)
    const { method, key, algorithm, block, isActive, priority, description } = await rules.create({ data: GOOD })

    assert.deepEqual(
      { method, key, algorithm, block, isActive, priority, description },
      {
        method: 'ALL',
        key: 'ip',
        algorithm: 'fixed_window',
        block: true,
        isActive: true,
        priority: 0,
        description: '',
      },
    )
  })

  test('bad rows that raw SQL wrote are skipped with one warning each, and take no other rule down', async (t) => {
    const { rules, client, limitOf, clock, log, database } = await startWithRules(t, provider)
    await rules.create({ data: GOOD })
    await insertRaw(database, { name: 'zz-pattern', pathPattern: '(?!x)', rate: '1/m' })
    await insertRaw(database, { name: 'zz-rate', pathPattern: '^/', rate: 'soon' })
    await insertRaw(database, { name: 'zz:colon', pathPattern: '^/', rate: '1/m' })
    await insertRaw(database, { name: 'zz-raw', pathPattern: '^/raw', rate: '3/m' })

    for (let round = 0; round < 3; round++) {
      clock.advance(61_000)
      assert.equal(await limitOf('/api/x'), '2')
      assert.equal(await limitOf('/raw'), '3')
      assert.equal(await limitOf('/other'), '1000')
    }
    const warned = log.filter(({ level }) => level === WARN).map((line) => String(Reflect.get(line, 'rule')))
    assert.deepEqual(warned.sort(), ['zz-pattern', 'zz-rate', 'zz:colon'])
    assert.equal(await client.rateLimitRule.count(), 5)
  })

  test('after a quiet time no request is answered by rules that raw SQL changed two seconds before', async (t) => {
    const { rules, limitOf, clock, database } = await startWithRules(t, provider)
    await rules.create({ data: GOOD })
    assert.equal(await limitOf('/api/x'), '2')
    await database.database.execute(`UPDATE ${database.database.dialect.table('rate_limit_rule')} SET rate = '9/m'`)

    clock.advance(2_000)
    assert.equal(await limitOf('/api/x'), '9')
  })

  test('ruleCacheTimeout 5 reads the table every 5 seconds, and rules.reload() and invalidateCache() at once', async (t) => {
    const { app, rules, limitOf, clock, database } = await startWithRules(t, provider, { ruleCacheTimeout: 5 })
    const setRate = (rate: string) =>
      database.database.execute(`UPDATE ${database.database.dialect.table('rate_limit_rule')} SET rate = $1`, [rate])
    await rules.create({ data: GOOD })
    assert.equal(await limitOf('/api/x'), '2')

    await setRate('3/m')
    clock.advance(5_000)
    assert.equal(await limitOf('/api/x'), '3')
    await setRate('4/m')
    app.smartRateLimit.rules.invalidateCache()
    assert.equal(await limitOf('/api/x'), '4')
    await setRate('5/m')
    assert.equal(await app.smartRateLimit.rules.reload(), 1)
    assert.equal(await limitOf('/api/x'), '5')
  })

  test('when the rule table goes away the last good rules stay, with one line in the log and no 500', async (t) => {
    const { rules, request, clock, log, database } = await startWithRules(t, provider)
    await rules.create({ data: GOOD })
    assert.equal((await request('/api/x')).headers['x-ratelimit-limit'], '2')
    const table = database.database.dialect.table('rate_limit_rule')
    await database.database.execute(`ALTER TABLE ${table} RENAME TO away`)

    for (let round = 0; round < 4; round++) {
      clock.advance(60_000)
      const { status, headers } = await request('/api/x')
      assert.deepEqual([status, headers['x-ratelimit-limit']], [200, '2'])
    }
    assert.equal(log.filter(({ level }) => level >= ERROR).length, 1)
    assert.match(log.find(({ level }) => level >= ERROR)?.err?.message ?? '', /ratelimit migrate/)
  })

  test('when the rule table is missing from the start, the static limits hold', async (t) => {
    const { request, log, database, clock } = await startWithRules(t, provider)
    await database.database.execute(`DROP TABLE ${database.database.dialect.table('rate_limit_rule')}`)
    clock.advance(60_000)

    const { status, headers } = await request('/api/x')

    assert.deepEqual([status, headers['x-ratelimit-limit']], [200, '1000'])
    assert.equal(log.filter(({ level }) => level >= ERROR).length, 1)
  })

  test('with dynamic rules off the rule table is never queried', async (t) => {
    const { rules, statuses, limitOf } = await startWithRules(t, provider, { useDynamicRules: false, logEvents: true })
    await rules.create({ data: GOOD })
    const count = countStatements()
    t.after(() => count.stop())

    assert.deepEqual(await statuses(3, '/api/x'), [200, 200, 200])
    assert.equal(await limitOf('/api/x'), '1000')

    assert.ok(count.of('rate_limit_counter').length >= 4)
    assert.deepEqual(count.of('rate_limit_rule'), [])
  })
})

async function startWithRules(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, middleware: { defaultRate: '1000/m' }, ...plugin },
  })
  const { client } = started.app.smartRateLimit
  return {
    ...started,
    database,
    client,
    rules: client.rateLimitRule,
    limitOf: async (path: string) => (await started.request(path)).headers['x-ratelimit-limit'],
  }
}

function insertRaw(
  { database }: TestDatabase,
  { name, pathPattern, rate }: { name: string; pathPattern: string; rate: string },
): Promise<number> {
  return database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_rule')} (name, path_pattern, rate) VALUES ($1, $2, $3)`,
    [name, pathPattern, rate],
  )
}
