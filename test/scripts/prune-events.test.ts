import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit prune-events', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await openTestDatabase('sqlite')
    for (const [key, days] of [
      ['old', 40],
      ['middle', 20],
      ['new', 0],
    ] as const) {
      await logEvents(database.client, { key, allowed: 3, atMs: Date.now() - days * DAY_MS })
    }
  })
  afterEach(() => database.close())

  function prune(...args: string[]) {
    return ratelimit(['prune-events', ...args], { env: { RATELIMIT_DATABASE_URL: database.url } })
  }

  async function keptKeys(): Promise<string[]> {
    const rows = await database.client.rateLimitEvent.findMany({ distinct: ['key'], orderBy: { key: 'asc' } })
    return rows.map(({ key }) => key)
  }

  test('deletes events older than 30 days by default', async () => {
    const { status, stdout, stderr } = await prune()
    assert.equal(status, 0)
    assert.equal(stderr, '')
    assert.match(stdout, /^Deleted 3 events older than 30 days in [\d.]+ s\.\n$/)
    assert.deepEqual(await keptKeys(), ['middle', 'new'])
  })

  test('deletes in batches until nothing old is left', async () => {
    const { status, stdout } = await prune('--older-than-days', '10', '--batch-size', '1', '--json')
    assert.equal(status, 0)
    const { elapsed_seconds, ...rest } = JSON.parse(stdout)
    assert.equal(typeof elapsed_seconds, 'number')
    assert.deepEqual(rest, { found: 6, deleted: 6, older_than_days: 10, dry_run: false })
    assert.deepEqual(await keptKeys(), ['new'])
  })

  test('--dry-run says what would be deleted, and deletes nothing', async () => {
    const { status, stdout } = await prune('--dry-run', '--older-than-days', '10')
    assert.deepEqual([status, stdout], [0, 'DRY RUN: nothing is deleted.\nWould delete 6 events older than 10 days.\n'])
    const { elapsed_seconds, ...rest } = JSON.parse((await prune('--dry-run', '--json')).stdout)
    assert.equal(typeof elapsed_seconds, 'number')
    assert.deepEqual(rest, { found: 3, deleted: 0, older_than_days: 30, dry_run: true })
    assert.deepEqual(await keptKeys(), ['middle', 'new', 'old'])
  })

  test('a wrong number is wrong usage, and deletes nothing', async () => {
    const { status, stderr } = await prune('--older-than-days', 'all')
    assert.equal(status, 2)
    assert.match(
      stderr,
      /^ratelimit prune-events: option '--older-than-days <int>' argument 'all' is invalid\. Give a whole number of days, /,
    )
    assert.deepEqual(await keptKeys(), ['middle', 'new', 'old'])
  })
})
