/** A flood from a refused client costs no call of the store, is logged all the same, and ends where it has to. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp, type TestApp } from '../support/build-app.js'
import { type FakeClock, fakeClock } from '../support/clock.js'
import { countStatements } from '../support/count-statements.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { openRedis, redisMissing } from '../support/redis.js'

forAnyDatabase((provider) => {
  test('200 requests of a refused client run no statement on its counter, and each is logged with its count', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { defaultRate: '2/h' } },
    })
    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    // The store decides until the resets of other processes were read for the first time.
    let requests = 3
    await eventually('a refusal is answered from memory', async () => {
      const one = countStatements()
      t.after(() => one.stop())
      requests += (await statuses(1, '/')).length
      one.stop()
      return one.of('rate_limit_counter').length === 0
    })

    const count = countStatements()
    t.after(() => count.stop())
    requests += 200
    for (const status of await statuses(200, '/')) assert.equal(status, 429)

    assert.deepEqual(count.of('rate_limit_counter'), [])
    count.stop()
    await app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map((event) => event.count),
      Array.from({ length: requests }, (_, index) => index + 1),
    )
  })

  test('a client that is reset in one process may go on in another one, after two seconds at most', async (t) => {
    const database = await openDatabase(t, provider)
    await proveReset((clock) => startApp(t, { database, clock, plugin: { middleware: { defaultRate: '2/h' } } }))
  })

  test('a rule that is edited lets a refused client go on with its next request', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await startApp(t, { database, plugin: { useDynamicRules: true } })
    const rules = app.smartRateLimit.client.rateLimitRule
    await rules.create({ data: { name: 'api', pathPattern: '^/', rate: '2/h' } })
    assert.deepEqual(await statuses(5, '/'), [200, 200, 429, 429, 429])
    await rules.update({ where: { name: 'api' }, data: { rate: '10/h' } })
    assert.deepEqual(await statuses(1, '/'), [200])
  })
})

describe('on Redis', { skip: redisMissing }, () => {
  test('a client that is reset in one process may go on in another one, after two seconds at most', async (t) => {
    const { url, namespace } = openRedis(t)
    const plugin: RateLimitOptions = { redis: url, namespace, middleware: { backend: 'redis', defaultRate: '2/h' } }
    await proveReset((clock) => startApp(t, { database: null, clock, plugin }))
  })
})

async function proveReset(start: (clock: FakeClock) => Promise<TestApp>): Promise<void> {
  const clock = fakeClock()
  const [one, two] = [await start(clock), await start(clock)]
  assert.deepEqual(await one.statuses(2, '/'), [200, 200])
  assert.deepEqual(await two.statuses(3, '/'), [429, 429, 429])

  await one.app.smartRateLimit.reset('ip:127.0.0.1')

  assert.deepEqual(await one.statuses(1, '/'), [200], 'at once where it was asked for')
  clock.advance(2 * SECOND_MS)
  assert.deepEqual(await two.statuses(2, '/'), [200, 429])
}
