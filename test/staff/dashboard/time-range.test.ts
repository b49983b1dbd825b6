/** Times as people type them, and ranges in addresses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { parseTime, rangesBeside, rangeText, readRange, spellTime } from '../../../src/staff/dashboard/time-range.js'

const NOW_MS = Date.UTC(2026, 10, 25, 12, 34, 56, 789)
const AT_MS = Date.UTC(2026, 10, 24, 14)

function read(since: string, until = '') {
  return readRange((name) => (name === 'since' ? since : until), NOW_MS)
}

test('a time is typed with or without a T, a zone, or a day, and as so long ago', () => {
  for (const text of ['2026-11-24T14:00', '2026-11-24 14:00', '2026-11-24T14:00:59Z', '2026-11-24T15:00+01:00']) {
    assert.equal(parseTime(text, NOW_MS), AT_MS, text)
  }
  assert.equal(parseTime('2026-11-24', NOW_MS), Date.UTC(2026, 10, 24))
  const nowMinuteMs = Date.UTC(2026, 10, 25, 12, 34)
  for (const text of ['-2h', '2h', '2 hours ago', '120m', '-120min']) {
    assert.equal(parseTime(text, NOW_MS), nowMinuteMs - 2 * HOUR_MS, text)
  }
  assert.equal(parseTime('3D', NOW_MS), nowMinuteMs - 3 * DAY_MS)
})

test('yesterday and today are days of UTC, with a time or from their beginning', () => {
  for (const text of ['yesterday 14:00', 'Yesterday at 14:00']) assert.equal(parseTime(text, NOW_MS), AT_MS, text)
  assert.equal(parseTime('yesterday', NOW_MS), Date.UTC(2026, 10, 24))
  assert.equal(parseTime('today 9:30', NOW_MS), Date.UTC(2026, 10, 25, 9, 30))
  for (const text of ['yesterday 25:00', 'yesterdays', 'yesterday14:00'])
    assert.equal(parseTime(text, NOW_MS), undefined)
})

test('a time without a day is the latest one, and as an end the first one after the beginning', () => {
  assert.equal(parseTime('12:34', NOW_MS), Date.UTC(2026, 10, 25, 12, 34))
  assert.equal(parseTime('14:00', NOW_MS), AT_MS)
  assert.deepEqual(read('14:00', '15:00').range, { since: AT_MS, until: AT_MS + HOUR_MS })
  assert.deepEqual(read('2026-11-20 23:00', '1:00').range, {
    since: Date.UTC(2026, 10, 20, 23),
    until: Date.UTC(2026, 10, 21, 1),
  })
  assert.deepEqual(read('12:00', '13:00').range, {
    since: Date.UTC(2026, 10, 25, 12),
    until: Date.UTC(2026, 10, 25, 13),
  })
})

test('a range without an end reaches until now, as one far ahead', () => {
  for (const until of ['', 'now', '9999-12-31', '2026-12-31 00:00']) {
    assert.deepEqual(read('2026-11-24 14:00', until).range, { since: AT_MS, until: undefined }, until)
  }
})

test('a range of a page is a year at most, to its end', () => {
  assert.deepEqual(read('1970-01-01', '2026-11-24 14:00').range, { since: AT_MS - 365 * DAY_MS, until: AT_MS })
})

test('what is no range says what to write at its field', () => {
  const wrong: [since: string, until: string, field: string, text: RegExp][] = [
    ['tomorrow', '', 'since', /^Write it as 2026-11-24 14:00, 14:00, yesterday 14:00, or 2h/],
    ['14.00', '15:00', 'since', /^Write it as/],
    ['24:00', '', 'since', /^Write it as/],
    ['2026-02-31', '', 'since', /^Write it as/],
    ['+275760-09-13', '', 'since', /^Write it as/],
    ['99999-01-01T00:00', '', 'since', /^Write it as/],
    ['0001-01-01', '', 'since', /^Write it as/],
    ['999999d', '', 'since', /^Write it as/],
    ['NaN', 'NaN', 'since', /^Write it as/],
    ['1764000000000', '', 'since', /^Write it as/],
    ['14:00', 'later', 'until', /^Write it as/],
    ['', '14:00', 'since', /^Write when the range begins/],
    ['2026-11-24 14:00', '2026-11-24 14:00', 'until', /^Write an end that is after the beginning/],
    ['2026-11-24 14:00', '2026-11-24', 'until', /^Write an end that is after the beginning/],
    ['2026-11-25 12:35', '', 'since', /^Write a time in the past/],
    ['9998-01-01', '9999-01-01', 'since', /^Write a time in the past/],
  ]
  for (const [since, until, field, text] of wrong) {
    const { range, typed } = read(since, until)
    assert.equal(range, undefined, since)
    assert.equal(typed?.problem?.field, field, since)
    assert.match(typed?.problem?.text ?? '', text)
  }
  assert.deepEqual(read(' ', ''), {})
})

test('a range is written out with its zone', () => {
  assert.equal(rangeText({ since: AT_MS, until: AT_MS + HOUR_MS }), '2026-11-24 14:00–15:00 UTC')
  assert.equal(rangeText({ since: AT_MS, until: AT_MS + 10 * HOUR_MS }), '2026-11-24 14:00–24:00 UTC')
  assert.equal(rangeText({ since: AT_MS, until: AT_MS + DAY_MS }), '2026-11-24 14:00 – 2026-11-25 14:00 UTC')
  assert.equal(rangeText({ since: AT_MS }), 'since 2026-11-24 14:00 UTC')
  assert.equal(spellTime(AT_MS), '2026-11-24T14:00Z')
})

test('beside a range are those of the same length, none in the future and none before 1970', () => {
  assert.deepEqual(rangesBeside({ since: AT_MS, until: AT_MS + HOUR_MS }, NOW_MS), {
    earlier: { since: AT_MS - HOUR_MS, until: AT_MS },
    later: { since: AT_MS + HOUR_MS, until: AT_MS + 2 * HOUR_MS },
  })
  const endMs = Date.UTC(2026, 10, 25, 12, 34)
  assert.deepEqual(rangesBeside({ days: 1 / 24 }, NOW_MS), {
    earlier: { since: endMs - 2 * HOUR_MS, until: endMs - HOUR_MS },
    later: undefined,
  })
  assert.deepEqual(rangesBeside({ since: MINUTE_MS, until: 3 * MINUTE_MS }, NOW_MS).earlier, undefined)
})
