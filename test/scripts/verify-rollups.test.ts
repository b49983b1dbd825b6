import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openTestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit verify-rollups', () => {
  test('counts the events of every hour again', async (t) => {
    const { client, database, url, close } = await openTestDatabase('sqlite')
    t.after(close)
    const verify = (...args: string[]) =>
      ratelimit(['verify-rollups', ...args], { env: { RATELIMIT_DATABASE_URL: url } })
    await logEvents(client, { key: 'user:7', allowed: 3, blocked: 2, atMs: Date.UTC(2026, 0, 15) })
    await foldRollups(database)
    await database.execute('UPDATE rate_limit_blocked_rollup SET blocked = 3')

    const { stdout, stderr, status } = await verify()
    assert.match(stdout, /^Counted the events of 1 hour again \([\d.]+ s\)\.\n$/)
    assert.deepEqual([status, stderr], [0, ''])
    assert.deepEqual(await database.query('SELECT span, blocked FROM rate_limit_blocked_rollup ORDER BY span'), [
      { span: 60, blocked: 2 },
      { span: 1440, blocked: 2 },
    ])
    const { elapsed_seconds, ...rest } = JSON.parse((await verify('--json')).stdout)
    assert.equal(typeof elapsed_seconds, 'number')
    assert.deepEqual(rest, { hours: 1 })
  })
})
