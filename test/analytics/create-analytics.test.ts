import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAnalytics } from '../../src/analytics/analytics.js'
import { InvalidSettingError } from '../../src/errors.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

forEachDatabase((_provider, open) => {
  test('reports can be read by a URL, and closed', async (t) => {
    const clock = fakeClock()
    const { url, schema, client, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'bad', blocked: 3, atMs: clock.now() })
    const analytics = createAnalytics({ database: url, schema, clock, alertThreshold: 3 })

    assert.equal((await analytics.getTrafficSummary()).total, 3)
    assert.deepEqual((await analytics.sendOffenderAlerts()).offenders, [{ key: 'bad', blocked_count: 3 }])
    await analytics.close()
  })

  test('closing reports leaves a client open that was handed in', async (t) => {
    const { client, close } = await open()
    t.after(close)
    const analytics = createAnalytics({ database: client })
    await analytics.close()

    assert.equal((await analytics.getTrafficSummary()).total, 0)
    assert.equal(await client.rateLimitEvent.count(), 0)
  })
})

test('a wrong alert threshold is refused at once', () => {
  for (const alertThreshold of [0, -5, 1.5]) {
    assert.throws(() => createAnalytics({ alertThreshold }), InvalidSettingError)
  }
})

test('a client of another make is refused', () => {
  const options: object = { database: {} }
  assert.throws(() => createAnalytics(options), InvalidSettingError)
})
