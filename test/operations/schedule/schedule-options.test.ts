import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseSchedule } from '../../../src/operations/schedule/schedule-options.js'
import { resolveSettings } from '../../../src/plugin/settings/resolve.js'

/** Local time, as in a crontab. */
function at(...parts: [number, number, number, number, number]): number {
  const [year, month, ...rest] = parts
  return new Date(year, month - 1, ...rest).getTime()
}

describe('a schedule', () => {
  for (const [pattern, after, next] of [
    ['*/5 * * * *', at(2026, 1, 15, 12, 1), at(2026, 1, 15, 12, 5)],
    ['*/5 * * * *', at(2026, 1, 15, 12, 5), at(2026, 1, 15, 12, 10)],
    ['17 3 * * *', at(2026, 1, 15, 12, 0), at(2026, 1, 16, 3, 17)],
    ['0 4 * * mon', at(2026, 1, 15, 12, 0), at(2026, 1, 19, 4, 0)],
    ['@daily', at(2026, 12, 31, 23, 59), at(2027, 1, 1, 0, 0)],
    ['0 0 29 2 *', at(2026, 3, 1, 0, 0), at(2028, 2, 29, 0, 0)],
  ] as const) {
    test(`of ${pattern} comes next after ${new Date(after).toLocaleString()} at ${new Date(next).toLocaleString()}`, () => {
      assert.equal(parseSchedule(pattern)(after), next)
    })
  }
})

const ALERTS = { alertWebhook: 'https://example.com/hook' }

for (const [schedule, complaint] of [
  ['*/5 * * * *', /"schedule" is .*give an object such as/],
  [{}, /"schedule" names nothing: give alerts, cleanup, pruneEvents/],
  [{ olderThanDays: 7 }, /"schedule" names nothing/],
  [{ report: '@daily' }, /"schedule\.report" does not exist: give one of alerts, cleanup, pruneEvents/],
  [{ cleanup: 5 }, /"schedule\.cleanup" is 5: give five fields/],
  [{ cleanup: 'daily' }, /"schedule\.cleanup" is "daily": give five fields as in a crontab/],
  [{ cleanup: '* * * * * *' }, /"schedule\.cleanup".*five fields/],
  [{ cleanup: '2030-01-01T00:00:00' }, /"schedule\.cleanup".*five fields/],
  [{ cleanup: '60 * * * *' }, /"schedule\.cleanup" is "60 \* \* \* \*": .*minute/],
  [{ cleanup: '0 0 31 2 *' }, /"schedule\.cleanup".*no such day/],
  [{ cleanup: '@daily', olderThanDays: 7 }, /"schedule\.olderThanDays" is given without "schedule\.pruneEvents"/],
  [{ pruneEvents: '@daily', olderThanDays: -1 }, /"schedule\.olderThanDays" is -1: give days, 0 to 36500/],
] as const) {
  test(`schedule: ${JSON.stringify(schedule)} is refused`, () => {
    // Wrong on purpose.
    assert.throws(() => resolveSettings({ schedule } as object, {}), complaint)
  })
}

test('alerts on a schedule need a channel, and no threshold', () => {
  const schedule = { alerts: '@hourly' }
  assert.throws(() => resolveSettings({ schedule }, {}), /without a channel: give alertEmails/)
  assert.deepEqual(
    resolveSettings({ schedule, ...ALERTS }, {}).schedule?.jobs.map(({ name }) => name),
    ['alerts'],
  )
})
