/** A report reads the last days, or a range from one moment to another. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import {
  hasEnded,
  toWindow,
  type WindowOptions,
  windowBefore,
  windowDays,
  windowFor,
} from '../../src/reports/report-window.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

const NOW_MS = Date.UTC(2026, 10, 25, 12, 34, 56, 789)
const AT_MS = Date.UTC(2026, 10, 24, 14)

test('a range is from a Date, a text with its zone, or milliseconds, to the millisecond', () => {
  const expected = { startMs: AT_MS, endMs: AT_MS + HOUR_MS }
  const ranges: WindowOptions[] = [
    { since: new Date(AT_MS), until: new Date(AT_MS + HOUR_MS) },
    { since: '2026-11-24T14:00Z', until: '2026-11-24T16:00:00+01:00' },
    { since: AT_MS, until: AT_MS + HOUR_MS + 0.5 },
  ]
  for (const range of ranges) assert.deepEqual(windowFor(toWindow(range, 7), NOW_MS), expected)
})

test('a range is compared with the same length before it', () => {
  const window = toWindow({ since: AT_MS, until: AT_MS + HOUR_MS }, 7)
  assert.deepEqual(windowBefore(window, NOW_MS), { startMs: AT_MS - HOUR_MS, endMs: AT_MS })
  assert.equal(windowDays(window, NOW_MS), 1 / 24)
  const early = toWindow({ since: HOUR_MS, until: 3 * HOUR_MS }, 7)
  assert.deepEqual(windowBefore(early, NOW_MS), { startMs: 0, endMs: HOUR_MS })
})

test('a range without an end reaches until now, with what faster clocks have recorded', () => {
  const window = toWindow({ since: AT_MS }, 7)
  assert.deepEqual(windowFor(window, NOW_MS), { startMs: AT_MS, endMs: windowFor({ days: 1 }, NOW_MS).endMs })
  assert.deepEqual(windowBefore(window, NOW_MS), { startMs: 2 * AT_MS - NOW_MS, endMs: AT_MS })
  assert.equal(windowDays(window, NOW_MS), (NOW_MS - AT_MS) / DAY_MS)
  // One that is to begin is empty.
  assert.equal(windowDays(toWindow({ since: NOW_MS + DAY_MS }, 7), NOW_MS), 0)
})

test('a window has ended where nothing of the present is in it', () => {
  assert.deepEqual(
    [{ days: 1 }, { since: AT_MS }, { since: AT_MS, until: NOW_MS + 1 }, { since: AT_MS, until: NOW_MS }].map((its) =>
      hasEnded(toWindow(its, 7), NOW_MS),
    ),
    [false, false, false, true],
  )
})

test('what is no window is refused, with its option and the remedy', () => {
  const wrong: [options: object, message: RegExp][] = [
    [{ since: '2026-11-24T14:00' }, /"since" is "2026-11-24T14:00": give a Date, a text with its zone/],
    [{ since: 'yesterday' }, /"since" is "yesterday": give a Date/],
    [{ since: Number.NaN }, /"since" is NaN/],
    [{ since: new Date(Number.NaN) }, /"since" is Invalid Date/],
    [{ since: -1 }, /"since" is -1: .* since 1970/],
    [{ since: Number.MAX_SAFE_INTEGER }, /"since" is 9007199254740991/],
    [{ since: {} }, /"since" is/],
    [{ since: null }, /"since" is null/],
    [{ since: AT_MS, until: '+010000-01-01T00:00Z' }, /"until" is/],
    [{ since: AT_MS, until: AT_MS }, /give a "since" before "until"/],
    [{ since: AT_MS, until: 0 }, /"until" 1970-01-01T00:00:00.000Z: give a "since" before "until"/],
    [{ until: AT_MS }, /"until" is set without "since"/],
    [{ days: 7, since: AT_MS }, /"days" and "since" are both set/],
    [{ days: Number.NaN }, /"days" is NaN/],
  ]
  for (const [options, message] of wrong) {
    assert.throws(
      () => toWindow(options, 7),
      (error) => error instanceof InvalidSettingError && message.test(error.message),
      JSON.stringify(options),
    )
  }
})

forEachDatabase((_provider, open) => {
  test('every report of a range has what is in it, and nothing else', async (t) => {
    const clock = fakeClock(NOW_MS)
    const { client, database, close } = await open(clock)
    t.after(close)
    const key = 'ip:203.0.113.7'
    const range = { since: AT_MS, until: new Date(AT_MS + HOUR_MS).toISOString() }
    for (const atMs of [AT_MS - 1, AT_MS + HOUR_MS, NOW_MS]) await logEvents(client, { key, blocked: 10, atMs })
    await logEvents(client, { key, blocked: 2, allowed: 1, atMs: AT_MS })
    await logEvents(client, { key, blocked: 1, atMs: AT_MS + HOUR_MS - 1 })
    const analytics = analyticsFor(database, clock)

    const { days, total, blocked } = await analytics.getTrafficSummary(range)
    assert.deepEqual({ days, total, blocked }, { days: 1 / 24, total: 4, blocked: 3 })
    assert.deepEqual(await analytics.getTopOffenders(range), [{ key, blocked_count: 3 }])
    assert.match(await analytics.offendersCsv(range), /ip:203\.0\.113\.7,3\r\n$/)
    assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 4, ...range }), [])
    const detail = await analytics.getOffenderDetail({ key, ...range })
    assert.deepEqual([detail.total, detail.recent_events.length], [4, 4])
    assert.equal(detail.first_seen, '2026-11-24T14:00:00.000Z')
    const [top] = await analytics.getTopClients(range)
    assert.deepEqual([top?.requests, top?.over_limit], [4, 3])
    const shown = await analytics.getClient({ client: key, ...range })
    assert.deepEqual([shown.requests, shown.last_seen], [4, '2026-11-24T14:59:59.999Z'])
    assert.deepEqual([shown.timeline.bar_ms, shown.timeline.bars.length], [MINUTE_MS, 60])
    assert.equal((await analytics.suggestRates(range)).requests, 4)
    await assert.rejects(analytics.getClient({ client: key, since: 1, until: 1 }), InvalidSettingError)
  })
})
