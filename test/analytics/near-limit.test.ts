import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearLimit } from '../../src/analytics/near-limit.js'
import { createReportRunner } from '../../src/analytics/window.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)

forEachDatabase((_provider, open) => {
  test('the highest limit there can be has clients near it, too', async (t) => {
    const { client, database, close } = await open()
    t.after(close)
    const limit = 2 ** 31 - 1
    const event = { timestamp: new Date(NOW_MS), path: '/', method: 'GET', allowed: true, limit }
    await client.rateLimitEvent.createMany({
      data: [
        { ...event, key: 'near', count: limit },
        { ...event, key: 'not near', count: Math.floor(limit * 0.8) },
      ],
    })
    const { clients } = await createReportRunner(database, fakeClock(NOW_MS))(nearLimit({}))
    assert.deepEqual(clients, [{ key: 'near', rule_name: '', usage: 1, requests: 1 }])
  })
})
