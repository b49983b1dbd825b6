/** An operator chooses the algorithm, per rule or for all that no rule matches, and clients see what it promises. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import type { Algorithm } from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase } from '../support/databases.js'

/** What a client of 4/m sees that asks five times at once: reset and wait, in seconds. The clock is on the minute. */
const FULL: readonly (readonly [Algorithm, reset: string, retryAfter: string])[] = [
  ['fixed_window', '60', '60'],
  ['sliding_window', '120', '75'],
  ['token_bucket', '60', '15'],
  ['leaky_bucket', '60', '15'],
]

forEachDatabase((provider) => {
  for (const [algorithm, reset, retryAfter] of FULL) {
    for (const backend of ['database', 'memory'] as const) {
      test(`${algorithm} as the static limit, counters in ${backend}`, async (t) => {
        const middleware = { algorithm, backend, defaultRate: '4/m' }
        const { clock, request, statuses } = await startApp(t, { database: provider, plugin: { middleware } })
        assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 200])

        const refused = await request('/')
        assert.equal(refused.status, 429)
        assert.equal(refused.headers['x-ratelimit-remaining'], '0')
        assert.equal(refused.headers['x-ratelimit-reset'], reset)
        assert.equal(refused.headers['retry-after'], retryAfter)
        clock.advance((Number(retryAfter) - 1) * 1_000)
        assert.deepEqual(await statuses(1, '/'), [429])
        clock.advance(1_000)
        assert.deepEqual(await statuses(1, '/'), [200])
      })
    }

    test(`a rule with ${algorithm}, without blocking: over-limit requests are logged, and cost nothing but in a fixed window`, async (t) => {
      const database = await openDatabase(t, provider)
      const plugin = { useDynamicRules: true, logEvents: true, middleware: { defaultRate: '1000/m' } }
      const { app, statuses } = await startApp(t, { database, plugin })
      await app.smartRateLimit.client.rateLimitRule.create({
        data: { name: 'api', pathPattern: '^/api/', rate: '2/m', algorithm, block: false },
      })

      assert.deepEqual(await statuses(4, '/api/x'), [200, 200, 200, 200])

      await app.smartRateLimit.events.flush()
      const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
      const last = algorithm === 'fixed_window' ? 4 : 3
      assert.deepEqual(
        events.map(({ count, allowed }) => [count, allowed]),
        [1, 2, 3, last].map((count) => [count, true]),
      )
    })
  }

  test('a rule whose algorithm is edited holds with the new one for the next request, afresh', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, clock, statuses } = await startApp(t, { database, plugin: { useDynamicRules: true } })
    const rules = app.smartRateLimit.client.rateLimitRule
    await rules.create({ data: { name: 'api', pathPattern: '^/api/', rate: '2/m' } })
    assert.deepEqual(await statuses(3, '/api/x'), [200, 200, 429])

    await rules.update({ where: { name: 'api' }, data: { algorithm: 'token_bucket' } })

    assert.deepEqual(await statuses(3, '/api/x'), [200, 200, 429])
    clock.advance(MINUTE_MS / 2)
    assert.deepEqual(await statuses(2, '/api/x'), [200, 429])
    const [bucket] = await database.client.rateLimitTokenBucket.findMany()
    assert.equal(bucket?.expiresAt.getTime(), clock.now() + MINUTE_MS)
    assert.deepEqual([bucket?.used, bucket?.windows], [2, `2,0,${MINUTE_MS},${clock.now()},2,2,0,3`])
    await app.smartRateLimit.reset('rule:api:127.0.0.1')
    assert.deepEqual(await statuses(1, '/api/x'), [200])
  })
})
