import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

forEachDatabase((_provider, open) => {
  test('the summary adds up what was allowed and what was blocked', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 2, blocked: 3, atMs: clock.now() })

    assert.deepEqual(await analyticsFor(database, clock).getTrafficSummary(), {
      days: 1,
      total: 5,
      allowed: 2,
      blocked: 3,
      block_rate: 0.6,
      denied: 0,
    })
  })

  test('what was denied is counted beside what limits were asked about', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 2, denied: 3, atMs: clock.now() })

    const { total, allowed, blocked, denied } = await analyticsFor(database, clock).getTrafficSummary()
    assert.deepEqual({ total, allowed, blocked, denied }, { total: 2, allowed: 2, blocked: 0, denied: 3 })
  })

  test('without traffic the block rate is 0', async (t) => {
    const { database, close } = await open()
    t.after(close)

    assert.deepEqual(await analyticsFor(database, fakeClock(), undefined).getTrafficSummary({ days: 7 }), {
      days: 7,
      total: 0,
      allowed: 0,
      blocked: 0,
      block_rate: 0,
      denied: 0,
    })
  })

  test('the block rate is not rounded', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 2, blocked: 1, atMs: clock.now() })

    const { block_rate } = await analyticsFor(database, clock).getTrafficSummary()
    assert.equal(block_rate, 1 / 3)
  })

  test('a window begins at its first millisecond and not before', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const analytics = analyticsFor(database, clock)
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 1, atMs: clock.now() - DAY_MS })
    assert.equal((await analytics.getTrafficSummary({ days: 1 })).total, 1)

    clock.advance(1)
    assert.equal((await analytics.getTrafficSummary({ days: 1 })).total, 0)
    assert.equal((await analytics.getTrafficSummary({ days: 2 })).total, 1)
    assert.equal((await analytics.getTrafficSummary({ days: 1.5 })).total, 1)
  })

  test('a window may be longer than recorded time', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 1, atMs: 0 })

    assert.equal((await analyticsFor(database, clock).getTrafficSummary({ days: 1e9 })).total, 1)
  })

  test('a number of days that is none is refused, with what to give instead', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const analytics = analyticsFor(database, fakeClock(), undefined)

    for (const days of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(analytics.getTrafficSummary({ days }), (error) => {
        assert.ok(error instanceof InvalidSettingError)
        assert.match(error.message, new RegExp(`Option "days" is ${days}: give a number of days above 0`))
        return true
      })
    }
  })

  test('a report first writes the events that the process still holds back', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    database.log.beforeReport.add(() => logEvents(client, { key: 'ip:203.0.113.7', blocked: 1, atMs: clock.now() }))

    assert.equal((await analyticsFor(database, clock).getTrafficSummary()).blocked, 1)
  })
})
