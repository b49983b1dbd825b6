import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

forEachDatabase((_provider, open) => {
  test('the keys with the most refused requests come first', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'meh', blocked: 2, atMs: clock.now() })
    await logEvents(client, { key: 'bad', blocked: 5, allowed: 1, atMs: clock.now() })
    await logEvents(client, { key: 'good', allowed: 9, atMs: clock.now() })
    await logEvents(client, { key: 'bygone', blocked: 9, atMs: clock.now() - 8 * DAY_MS })

    assert.deepEqual(await analyticsFor(database, clock).getTopOffenders(), [
      { key: 'bad', blocked_count: 5 },
      { key: 'meh', blocked_count: 2 },
    ])
  })

  test('ties are in the order of their bytes, on both databases', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const keys = ['b', 'a', 'B', 'A', 'ä', 'a:1', 'a-1', 'a 1', '_', '10', '9', 'ａ', '\u{1f600}']
    for (const key of keys) await logEvents(client, { key, blocked: 1, atMs: clock.now() })

    const offenders = await analyticsFor(database, clock).getTopOffenders()
    assert.deepEqual(
      offenders.map(({ key }) => key),
      keys.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
    )
  })

  test('no more rows come than were asked for', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    for (const key of ['c', 'a', 'b']) await logEvents(client, { key, blocked: 1, atMs: clock.now() })

    const offenders = await analyticsFor(database, clock).getTopOffenders({ limit: 2 })
    assert.deepEqual(
      offenders.map(({ key }) => key),
      ['a', 'b'],
    )
  })

  test('a limit that is no whole number above 0 is refused', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const analytics = analyticsFor(database, fakeClock(), undefined)

    for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(analytics.getTopOffenders({ limit }), InvalidSettingError)
      await assert.rejects(analytics.getRuleHitCounts({ limit }), InvalidSettingError)
      await assert.rejects(analytics.offendersCsv({ limit }), InvalidSettingError)
      await assert.rejects(analytics.findAlertableOffenders({ threshold: 1, limit }), InvalidSettingError)
    }
  })
})
