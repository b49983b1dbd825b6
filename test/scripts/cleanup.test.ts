import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit cleanup', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await openTestDatabase('sqlite')
  })
  afterEach(() => database.close())

  /** Counters whose window ended so many days ago; a negative age is a window that still runs. */
  async function createCounters(prefix: string, count: number, daysAgo: number): Promise<void> {
    const windowEnd = new Date(Date.now() - daysAgo * DAY_MS)
    const windowStart = new Date(windowEnd.getTime() - MINUTE_MS)
    await database.client.rateLimitCounter.createMany({
      data: Array.from({ length: count }, (_, index) => ({
        key: `${prefix}${index}`,
        count: 1,
        windowStart,
        windowEnd,
      })),
    })
  }

  /** What a sliding window or a bucket left so many days ago. */
  function listedOf(prefix: string, count: number, daysAgo: number) {
    return Array.from({ length: count }, (_, index) => ({
      key: `${prefix}${index}`,
      used: 1,
      asked: 1,
      cost: 1,
      expiresAt: new Date(Date.now() - daysAgo * DAY_MS),
      windows: '',
    }))
  }

  function cleanup(...args: string[]) {
    return ratelimit(['cleanup', ...args], { env: { RATELIMIT_DATABASE_URL: database.url } })
  }

  test('of an empty database prints a total', async () => {
    const { status, stdout, stderr } = await cleanup()
    assert.equal(status, 0)
    assert.equal(stderr, '')
    assert.match(
      stdout,
      /^Counters: deleted 0\nEntries: deleted 0\nToken buckets: deleted 0\nLeaky buckets: deleted 0\nConcurrency: deleted 0\nTotal: deleted 0 rows in [\d.]+ s\n$/,
    )
  })

  test('deletes what expired and keeps what is in force, and every event', async () => {
    await createCounters('expired', 5, 10)
    await createCounters('active', 3, -1)
    const { rateLimitSlidingWindow, rateLimitTokenBucket, rateLimitLeakyBucket } = database.client
    await rateLimitSlidingWindow.createMany({ data: [...listedOf('expired', 7, 10), ...listedOf('active', 4, -1)] })
    await rateLimitTokenBucket.createMany({ data: [...listedOf('expired', 4, 10), ...listedOf('active', 2, -1)] })
    await rateLimitLeakyBucket.createMany({ data: [...listedOf('expired', 3, 10), ...listedOf('active', 1, -1)] })
    await database.client.rateLimitEvent.create({
      data: { key: 'ip:192.0.2.1', path: '/', method: 'GET', allowed: true, count: 1, limit: 1 },
    })
    const { status, stdout } = await cleanup('--batch-size', '2')
    assert.equal(status, 0)
    assert.match(
      stdout,
      /^Counters: deleted 5\nEntries: deleted 7\nToken buckets: deleted 4\nLeaky buckets: deleted 3\nConcurrency: deleted 0\nTotal: deleted 19 /,
    )
    assert.equal(await database.client.rateLimitCounter.count(), 3)
    assert.equal(await rateLimitSlidingWindow.count(), 4)
    assert.equal(await rateLimitTokenBucket.count(), 2)
    assert.equal(await rateLimitLeakyBucket.count(), 1)
    assert.equal(await database.client.rateLimitEvent.count(), 1)
  })

  test('--dry-run says what it would delete, and deletes nothing; --verbose says what was found', async () => {
    await createCounters('expired', 5, 10)
    await database.client.rateLimitSlidingWindow.createMany({ data: listedOf('expired', 7, 10) })
    await database.client.rateLimitTokenBucket.createMany({ data: listedOf('expired', 4, 10) })
    const { status, stdout } = await cleanup('--dry-run', '--verbose')
    assert.equal(status, 0)
    assert.match(stdout, /^DRY RUN/)
    assert.match(stdout, /^Found 5 counters that expired more than 7 days ago\.$/m)
    assert.match(stdout, /^Found 7 sliding-window entries that expired more than 7 days ago\.$/m)
    assert.match(stdout, /^Token buckets: would delete 4$/m)
    assert.match(stdout, /^Total: would delete 16 rows/m)
    assert.equal(await database.client.rateLimitSlidingWindow.count(), 7)
    assert.equal(await database.client.rateLimitTokenBucket.count(), 4)
    assert.equal(await database.client.rateLimitCounter.count(), 5)
  })

  test('keeps an expired counter for --stale-days, 7 unless given', async () => {
    await createCounters('three', 1, 3)
    await createCounters('five', 1, 5)
    await createCounters('ten', 1, 10)
    await database.client.rateLimitTokenBucket.createMany({
      data: [...listedOf('three', 1, 3), ...listedOf('five', 1, 5), ...listedOf('ten', 1, 10)],
    })
    await cleanup()
    assert.equal(await database.client.rateLimitTokenBucket.count(), 2)
    const kept = await database.client.rateLimitCounter.findMany({ select: { key: true }, orderBy: { key: 'asc' } })
    assert.deepEqual(kept, [{ key: 'five0' }, { key: 'three0' }])
    await cleanup('--stale-days=2')
    assert.equal(await database.client.rateLimitTokenBucket.count(), 0)
    assert.equal(await database.client.rateLimitCounter.count(), 0)
  })

  test('--json has what was found and deleted, and in what time', async () => {
    await createCounters('expired', 5, 10)
    await database.client.rateLimitSlidingWindow.createMany({ data: listedOf('expired', 7, 10) })
    await database.client.rateLimitTokenBucket.createMany({ data: listedOf('expired', 4, 10) })
    const dry = JSON.parse((await cleanup('--dry-run', '--json')).stdout)
    assert.equal(typeof dry.elapsed_seconds, 'number')
    assert.deepEqual(
      { ...dry, elapsed_seconds: 0 },
      {
        counters: { found: 5, deleted: 0 },
        entries: { found: 7, deleted: 0 },
        token_buckets: { found: 4, deleted: 0 },
        leaky_buckets: { found: 0, deleted: 0 },
        permits: { found: 0, deleted: 0 },
        total_deleted: 0,
        elapsed_seconds: 0,
        dry_run: true,
      },
    )
    const real = JSON.parse((await cleanup('--json')).stdout)
    assert.deepEqual(
      { ...real, elapsed_seconds: 0 },
      {
        counters: { found: 5, deleted: 5 },
        entries: { found: 7, deleted: 7 },
        token_buckets: { found: 4, deleted: 4 },
        leaky_buckets: { found: 0, deleted: 0 },
        permits: { found: 0, deleted: 0 },
        total_deleted: 16,
        elapsed_seconds: 0,
        dry_run: false,
      },
    )
  })

  test('a batch size of 0, -1 or more than 100000 is wrong usage, and deletes nothing', async () => {
    await createCounters('expired', 1, 10)
    for (const size of ['0', '-1', '100001']) {
      const { status, stderr } = await cleanup('--batch-size', size)
      assert.equal(status, 2)
      assert.match(
        stderr,
        new RegExp(
          `^ratelimit cleanup: option '--batch-size <int>' argument '${size}' is invalid. Give a whole number of rows, `,
        ),
      )
    }
    assert.equal(await database.client.rateLimitCounter.count(), 1)
  })
})
