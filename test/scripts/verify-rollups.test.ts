import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openTestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit verify-rollups', () => {
  test('says that all is well, or what was wrong and is repaired; --dry-run fails and repairs nothing', async (t) => {
    const { client, database, url, close } = await openTestDatabase('sqlite')
    t.after(close)
    const verify = (...args: string[]) =>
      ratelimit(['verify-rollups', ...args], { env: { RATELIMIT_DATABASE_URL: url } })
    await logEvents(client, { key: 'user:7', allowed: 3, blocked: 2, atMs: Date.UTC(2026, 0, 15) })
    await foldRollups(database)

    const well = await verify()
    assert.match(well.stdout, /^The rollups of 1 day\(s\) agree with the event log \([\d.]+ s\)\.\n$/)
    assert.deepEqual([well.status, well.stderr], [0, ''])

    await database.execute('UPDATE rate_limit_blocked_rollup SET blocked = 3')
    const found = await verify('--dry-run')
    assert.deepEqual([found.status, found.stdout], [1, ''])
    assert.equal(
      found.stderr,
      'ratelimit verify-rollups: the rollups differ from the event log in 2 row(s) of 1 of 1 day(s): 2026-01-15\n',
    )
    const repaired = await verify('--json')
    assert.equal(repaired.status, 0)
    const { elapsed_seconds, ...rest } = JSON.parse(repaired.stdout)
    assert.equal(typeof elapsed_seconds, 'number')
    assert.deepEqual(rest, { days: 1, wrong_rows: 2, wrong_days: ['2026-01-15'], repaired: true, dry_run: false })
    assert.equal((await verify('--dry-run')).status, 0)
  })
})
