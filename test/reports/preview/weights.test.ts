/** A row that stands for many requests is replayed as all of them are. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventValues, insertEventsSql, valuesOfAlike } from '../../../src/log/event.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase } from '../../support/databases.js'
import { EVENT } from '../../support/events.js'

const RULE = { name: 'api', pathPattern: '^/api/', rate: '3/m' }

forEachDatabase((provider) => {
  test('a row is replayed as often as it weighs, between other work, and a sum of any size at once', async (t) => {
    const clock = fakeClock()
    const opened = await openDatabase(t, provider, clock)
    const { app } = await startApp(t, { database: opened, clock, plugin: { logEvents: true, useDynamicRules: true } })
    const at = { ...EVENT, timestampMs: clock.now() - 1_000, path: '/api/x', count: 1, limit: 100 }
    const row = (event: typeof at, weight: number) => valuesOfAlike(eventValues(event), { ...event, weight })
    const client = { key: 'ip:192.0.2.1', clientIp: '192.0.2.1', client: 'ip:192.0.2.1' }
    const rows = [
      row({ ...at, ...client, allowed: true, outcome: 'allowed' }, 100_000),
      row({ ...at, key: '', clientIp: null, client: '', allowed: true, outcome: 'allowed' }, 2_000_000_000),
    ]
    await opened.database.log.execute(insertEventsSql(opened.database.log.dialect), [JSON.stringify(rows)])
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    const preview = await app.smartRateLimit.rules.preview(RULE, { hours: 1 })
    clearInterval(timer)
    assert.equal(preview.matched, 100_000)
    assert.equal(preview.over_limit, 99_997)
    assert.deepEqual(preview.uncovered.reasons, { only_sums: 2_000_000_000 })
    assert.ok(turns >= 3, `${turns} turns of the event loop`)
  })
})
