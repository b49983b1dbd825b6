import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { MINUTE_MS } from '../../../src/ground/time/clock.js'
import { ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import { cleanupState } from '../../../src/limiter/stores/sql/state-cleanup.js'
import { fakeClock } from '../../support/clock.js'
import { countStatements } from '../../support/count-statements.js'
import { forEachDatabase } from '../../support/databases.js'
import { long } from '../../support/long.js'

forEachDatabase((provider, open) => {
  test('cleanup deletes what expired in every table, in batches, and nothing that still counts', async () => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    try {
      const store = new DatabaseStore({ database: client })
      const use = (name: string) =>
        store.check(
          ALGORITHMS.flatMap((algorithm) =>
            Array.from({ length: 7 }, (_, index) => ({
              key: `${name}${index}`,
              policy: { algorithm, limit: 5, periodMs: MINUTE_MS },
              cost: 1,
            })),
          ),
          clock.now(),
        )
      await use('old')
      clock.advance(10 * MINUTE_MS)
      await use('new')

      assert.deepEqual((await cleanupState(database, clock)).counters, { found: 0, deleted: 0 }, 'within the grace')
      const all = { found: 7, deleted: 7 }
      assert.deepEqual(await cleanupState(database, clock, { staleDays: 0, batchSize: 3 }), {
        counters: all,
        entries: all,
        token_buckets: all,
        leaky_buckets: all,
        permits: all,
      })
      assert.equal(await client.rateLimitCounter.count({ where: { key: { startsWith: 'new' } } }), 7)
      assert.equal(await client.rateLimitLeakyBucket.count(), 7)
      assert.equal(await client.rateLimitConcurrency.count(), 7)
    } finally {
      await close()
    }
  })

  for (const algorithm of ['token_bucket', 'leaky_bucket'] as const) {
    test(`cleanup leaves a bucket in debt until it has drained, also one whose limit was lowered: ${algorithm}`, async () => {
      const clock = fakeClock()
      const { client, database, close } = await open(clock)
      try {
        const store = new DatabaseStore({ database: client })
        const charge = (key: string, limit: number, cost: number) =>
          store.check([{ key, policy: { algorithm, limit, periodMs: MINUTE_MS }, cost, charges: true }], clock.now())
        // It drains in 50 minutes.
        await charge('at once', 100, 5_000)
        for (const cost of [2_000, 2_999, 1]) await charge('bit by bit', 100, cost)
        await charge('lowered', 1_000, 4_990)
        await charge('lowered', 100, 10)
        const left = async () => {
          const cleaned = await cleanupState(database, clock, { staleDays: 0 })
          return 3 - cleaned[algorithm === 'token_bucket' ? 'token_buckets' : 'leaky_buckets'].deleted
        }
        clock.advance(50 * MINUTE_MS)
        assert.equal(await left(), 3)
        clock.advance(1)
        assert.equal(await left(), 0)
      } finally {
        await close()
      }
    })
  }

  test('cleanup counts only when it is asked to, or deletes nothing', async () => {
    const { database, close } = await open()
    const count = countStatements()
    try {
      await cleanupState(database, fakeClock())
      assert.equal(count.of('COUNT(*)').length, 0)
      await cleanupState(database, fakeClock(), { count: true })
      assert.equal(count.of('COUNT(*)').length, ALGORITHMS.length)
      await cleanupState(database, fakeClock(), { dryRun: true })
      assert.equal(count.of('COUNT(*)').length, 2 * ALGORITHMS.length)
    } finally {
      count.stop()
      await close()
    }
  })

  // SQLite has one writer at a time, and no rows to lock.
  if (provider === 'sqlite') return

  test('cleanup does not wait for rows that the limiter is just using', async () => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    try {
      const windowEnd = new Date(clock.now() - 1)
      const windowStart = new Date(clock.now() - MINUTE_MS)
      await client.rateLimitCounter.createMany({
        data: ['used', 'forgotten'].map((key) => ({ key, count: 1, windowStart, windowEnd })),
      })
      await client.$transaction(async (transaction) => {
        await transaction.rateLimitCounter.update({ where: { key: 'used' }, data: { count: 2 } })
        const { counters } = await cleanupState(database, clock, { staleDays: 0, count: true })
        assert.deepEqual(counters, { found: 2, deleted: 1 })
      })
      assert.equal((await client.rateLimitCounter.findFirst())?.key, 'used')
    } finally {
      await close()
    }
  })

  test('counting what is old is waited for like a report, and longer than for a batch', long(), async () => {
    const { client, database, close } = await open()
    try {
      const tables = ['rate_limit_event', 'rate_limit_counter'].map((name) => database.dialect.table(name)).join(', ')
      const counts = await client.$transaction(
        async (transaction) => {
          await transaction.$executeRawUnsafe(`LOCK TABLE ${tables} IN ACCESS EXCLUSIVE MODE`)
          const counting = Promise.allSettled([
            client.rateLimitEvent.cleanupOld({ dryRun: true }),
            cleanupState(database, fakeClock(), { dryRun: true }),
          ])
          // A batch is given up after five seconds.
          await delay(6_000)
          return { counting }
        },
        { timeout: 10_000 },
      )
      const statuses = (await counts.counting).map(({ status }) => status)
      assert.deepEqual(statuses, ['fulfilled', 'fulfilled'])
    } finally {
      await close()
    }
  })
})
