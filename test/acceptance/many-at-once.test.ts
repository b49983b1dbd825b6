/** Traffic comes in waves: checks that arrive together go to the database together, and exactly the limit gets in. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { type Algorithm, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { createHttpClient } from '../support/http-client.js'

const MANY = Array.from({ length: 200 }, (_, place) => place)

for (const algorithm of RATE_ALGORITHMS) {
  test(`200 requests at once over 200 connections, counted in memory: exactly the 50 of 50/m get in, by ${algorithm}`, (t) =>
    proveExact(t, algorithm, null))
}

forEachDatabase((provider) => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`200 requests at once over 200 connections: exactly the 50 of 50/m get in, by ${algorithm}`, async (t) =>
      proveExact(t, algorithm, await openDatabase(t, provider)))
  }

  test('200 checks at once issue at most 10 statements, and exactly the 50 of 50/m are admitted', async (t) => {
    const { app } = await startApp(t, { database: provider, plugin: { middleware: { defaultRate: '50/m' } } })
    await app.inject('/warm-up?of=connections').then(() => app.smartRateLimit.store.reset(['default|ip:127.0.0.1']))
    const count = countStatements()
    t.after(() => count.stop())

    const answers = await Promise.all(MANY.map(() => app.inject('/')))
    count.stop()

    assert.ok(count.statements.length >= 1 && count.statements.length <= 10, `${count.statements.length} statements`)
    assert.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 50)
    assert.equal(answers.filter(({ statusCode }) => statusCode === 429).length, 150)
    const admitted = answers.filter(({ statusCode }) => statusCode === 200)
    const remaining = admitted.map(({ headers }) => Number(headers['x-ratelimit-remaining']))
    assert.deepEqual(
      remaining.toSorted((a, b) => b - a),
      MANY.slice(0, 50).reverse(),
      'each is counted once',
    )
  })

  test('200 clients at once with rules and events on read the rules once, and count and log in at most 16 statements', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, clock } = await startApp(t, {
      database,
      fastify: { trustProxy: true },
      plugin: { logEvents: true, useDynamicRules: true },
    })
    await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '^/', rate: '1/m' } })
    await database.database.execute(`UPDATE ${database.database.dialect.table('rate_limit_rule')} SET rate = '2/m'`)
    clock.advance(2_000)
    const count = countStatements()
    t.after(() => count.stop())

    const answers = await Promise.all(
      MANY.map((place) => app.inject({ url: '/', headers: { 'x-forwarded-for': `203.0.113.${place}` } })),
    )
    await app.smartRateLimit.events.flush()
    count.stop()

    assert.deepEqual(new Set(answers.map(({ statusCode }) => statusCode)), new Set([200]))
    assert.equal(count.of('rate_limit_rule').length, 1)
    // Not all statements: a slow machine begins to sum up the events meanwhile.
    const checks = count.of('rate_limit_counter')
    const logged = count.statements.filter((sql) => /INSERT INTO \S*rate_limit_event"/.test(sql))
    assert.ok(checks.length >= 1)
    assert.ok(logged.length >= 1)
    assert.ok(checks.length + logged.length <= 16, `${checks.length} of counters, ${logged.length} of events`)
    assert.equal(await database.client.rateLimitEvent.count(), 200)
    assert.equal(await database.client.rateLimitCounter.count(), 200)
  })

  test('300 requests over 300 connections to two servers on one database: exactly the 100 of 100/m are admitted', async (t) => {
    const database = await openDatabase(t, provider)
    const plugin = { database: database.url, schema: database.schema }
    const one = await startApp(t, { database: null, plugin: { ...plugin, middleware: { backend: 'database' } } })
    const two = await startApp(t, {
      database: null,
      clock: one.clock,
      plugin: { ...plugin, middleware: { backend: 'database' } },
    })
    const http = createHttpClient()
    t.after(() => http.close())

    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, place) => http.request(place % 2 === 0 ? one.port : two.port, '/', {})),
    )

    assert.equal(answers.filter(({ status }) => status === 200).length, 100)
    assert.equal(answers.filter(({ status }) => status === 429).length, 200)
    // What was refused once is refused from memory afterwards.
    const [counter, ...others] = await database.client.rateLimitCounter.findMany()
    assert.deepEqual([counter?.key, others], ['default|ip:127.0.0.1', []])
    assert.ok(counter !== undefined && counter.count > 100 && counter.count <= 300)
  })

  test('a rule edited 20 times under load: every request after an edit obeys it', async (t) => {
    const { app, request } = await startApp(t, { database: provider, plugin: { useDynamicRules: true } })
    const rules = app.smartRateLimit.client.rateLimitRule
    await rules.create({ data: { name: 'all', pathPattern: '^/', rate: '1000/h' } })
    let loaded = true
    const load = Array.from({ length: 8 }, async () => {
      while (loaded) await request('/load')
    })

    try {
      for (let edit = 1; edit <= 20; edit++) {
        await rules.update({ where: { name: 'all' }, data: { rate: `${1000 + edit}/h` } })
        assert.equal((await request('/')).headers['x-ratelimit-limit'], String(1000 + edit))
      }
    } finally {
      loaded = false
      await Promise.all(load)
    }
  })
})

/** Also once the time that `Retry-After` names is over, and not a second before. */
async function proveExact(t: TestContext, algorithm: Algorithm, database: TestDatabase | null): Promise<void> {
  const { port, clock } = await startApp(t, {
    database,
    plugin: { middleware: { defaultRate: '50/m', algorithm } },
  })
  const http = createHttpClient()
  t.after(() => http.close())
  const ask = () => http.request(port, '/', {})
  const statuses = async () => (await Promise.all(MANY.map(ask))).map(({ status }) => status)
  const admitted = (all: readonly number[]) => all.filter((status) => status === 200).length

  const first = await statuses()
  assert.equal(admitted(first), 50)
  assert.equal(first.filter((status) => status === 429).length, 150)

  const seconds = Number((await ask()).headers['retry-after'])
  clock.advance((seconds - 1) * SECOND_MS)
  assert.equal(admitted(await statuses()), 0)
  clock.advance(SECOND_MS)
  assert.ok(admitted(await statuses()) >= 1)
  clock.advance(2 * MINUTE_MS)
  assert.equal(admitted(await statuses()), 50)
}
