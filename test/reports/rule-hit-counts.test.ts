import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

forEachDatabase((_provider, open) => {
  test('rules are counted with what they let through and what they blocked', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const atMs = clock.now()
    await logEvents(client, { key: 'rule:api:203.0.113.7', ruleName: 'api', allowed: 1, blocked: 1, atMs })
    await logEvents(client, { key: 'rule:login:203.0.113.7', ruleName: 'login', blocked: 3, atMs })
    await logEvents(client, { key: 'rule:search:203.0.113.7', ruleName: 'search', allowed: 2, atMs })
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 9, atMs })
    await logEvents(client, { key: 'rule:old:203.0.113.7', ruleName: 'old', allowed: 9, atMs: atMs - 8 * DAY_MS })

    const analytics = analyticsFor(database, clock)
    const hits = [
      { rule_name: 'login', hits: 3, blocked: 3 },
      { rule_name: 'api', hits: 2, blocked: 1 },
      { rule_name: 'search', hits: 2, blocked: 0 },
    ]
    assert.deepEqual(await analytics.getRuleHitCounts(), hits)
    assert.deepEqual(await analytics.getRuleHitCounts({ limit: 2 }), hits.slice(0, 2))
  })
})
