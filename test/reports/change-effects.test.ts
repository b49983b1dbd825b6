import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { readRuleEffects, timesAround } from '../../src/reports/change-effects.js'
import { createReportRunner } from '../../src/reports/report.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'

const NOON_MS = Date.UTC(2026, 0, 15, 12)

function lengthsAround(agoMs: number) {
  const times = timesAround(NOON_MS - agoMs, NOON_MS)
  if (times === undefined) return undefined
  const { before, after } = times
  assert.equal(before.endMs - before.startMs, after.endMs - after.startMs)
  assert.ok(before.endMs <= NOON_MS - agoMs && NOON_MS - agoMs <= after.startMs && after.endMs <= NOON_MS)
  return after.endMs - after.startMs
}

test('the times before and after a change are equal: whole minutes, then whole hours, a day at most', () => {
  const lengths: readonly [agoMs: number, lengthMs: number | undefined][] = [
    [0, undefined],
    [MINUTE_MS - 1, undefined],
    [MINUTE_MS, MINUTE_MS],
    [90_000, MINUTE_MS],
    [59 * MINUTE_MS, 59 * MINUTE_MS],
    [HOUR_MS, HOUR_MS],
    [119 * MINUTE_MS, HOUR_MS],
    [5 * HOUR_MS + 1, 5 * HOUR_MS],
    [30 * DAY_MS, DAY_MS],
  ]
  for (const [agoMs, lengthMs] of lengths) assert.equal(lengthsAround(agoMs), lengthMs, String(agoMs))
})

test('a change of the future has no time after it', () => {
  assert.equal(timesAround(NOON_MS + MINUTE_MS, NOON_MS), undefined)
})

forEachDatabase((_provider, open) => {
  test('the effect of a change has every request of the rule, also where another one decided', async (t) => {
    const clock = fakeClock(NOON_MS)
    const { database, close } = await open(clock)
    t.after(close)
    const atMs = NOON_MS - 5 * MINUTE_MS
    const [before, after] = [atMs - MINUTE_MS, atMs + MINUTE_MS]
    const refused = { ruleName: 'search', allowed: false, outcome: 'over_limit' } as const
    await logRows(database, [
      { timestampMs: before, ruleName: 'team', rules: '' },
      { ...refused, timestampMs: before, rules: '-search:-team' },
      { ...refused, timestampMs: before, rules: '-search:+team' },
      { ...refused, timestampMs: after, rules: '-search' },
      { ...refused, timestampMs: after, rules: '-search:+team' },
    ])
    const change = { id: 1, entity: 'rule', name: 'team', action: 'update', actor: '', at_ms: atMs } as const
    const read = createReportRunner(database, clock)
    const [effect] = await read((snapshot) => readRuleEffects(snapshot, [change], new Set(['team']), {}))
    const none = { would_block: 0, denied: 0 }
    assert.deepEqual(effect?.before, { total: 3, blocked: 1, ...none })
    assert.deepEqual(effect?.after, { total: 1, blocked: 0, ...none })
  })
})
