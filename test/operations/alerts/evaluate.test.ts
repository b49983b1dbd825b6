import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Entry } from '../../../src/operations/alerts/ledger.js'
import { evaluate } from '../../../src/operations/alerts/offenders.js'

const NOW = 1_000_000
const COOLDOWN = 1_000
const SETTINGS = { alertCooldown: COOLDOWN / 1_000, alertResolved: true }

function alert(changes: Partial<Entry>): Entry {
  return { key: 'key', count: 10, notifiedMs: NOW - 500, resolvedMs: null, ...changes }
}

function ledger(...entries: readonly Entry[]): ReadonlyMap<string, Entry> {
  return new Map(entries.map((entry) => [entry.key, entry]))
}

/** The known alert of a key, how often it is blocked now (0: not over the threshold), and the outcome. */
for (const [why, known, count, outcome] of [
  ['is new', undefined, 5, 'alert'],
  ['was notified within the cool-down', alert({}), 19, 'nothing'],
  ['was notified within the cool-down, and has doubled', alert({}), 20, 'alert'],
  ['was notified, and the cool-down is over', alert({ notifiedMs: NOW - COOLDOWN }), 5, 'alert'],
  ['was notified, and the cool-down is nearly over', alert({ notifiedMs: NOW - COOLDOWN + 1 }), 5, 'nothing'],
  ['was notified by a clock that was a little ahead', alert({ notifiedMs: NOW + COOLDOWN - 1 }), 5, 'nothing'],
  ['was notified by a clock that was far ahead', alert({ notifiedMs: NOW + COOLDOWN }), 5, 'alert'],
  ['could not be notified', alert({ notifiedMs: null, count: 0 }), 5, 'alert'],
  ['fell silent', alert({}), 0, 'resolved'],
  ['fell silent, and was notified as resolved', alert({ resolvedMs: NOW - 100 }), 0, 'nothing'],
  ['was never notified, and fell silent', alert({ notifiedMs: null }), 0, 'nothing'],
  ['came back within the cool-down', alert({ resolvedMs: NOW - 100 }), 5, 'nothing'],
  ['came back within the cool-down, doubled', alert({ resolvedMs: NOW - 100 }), 20, 'alert'],
] as const) {
  test(`a key that ${why}: ${outcome}`, () => {
    const offenders = count === 0 ? [] : [{ key: 'key', blocked_count: count }]
    const evaluation = evaluate(
      known === undefined ? ledger() : ledger(known),
      { offenders, isComplete: true },
      SETTINGS,
      NOW,
    )
    assert.deepEqual(evaluation.due, outcome === 'alert' ? offenders : [])
    assert.deepEqual(evaluation.resolved, outcome === 'resolved' ? ['key'] : [])
  })
}

test('no key counts as resolved where the list of offenders was cut, or where resolved keys are not notified', () => {
  const entries = ledger(alert({}))
  assert.deepEqual(evaluate(entries, { offenders: [], isComplete: false }, SETTINGS, NOW).resolved, [])
  const complete = { offenders: [], isComplete: true }
  assert.deepEqual(evaluate(entries, complete, { ...SETTINGS, alertResolved: false }, NOW).resolved, [])
})

test('the active keys are those that were or are notified, without those that fell silent', () => {
  const entries = ledger(alert({ key: 'silent' }), alert({ key: 'quiet' }), alert({ key: 'past', resolvedMs: NOW - 1 }))
  const offenders = [
    { key: 'quiet', blocked_count: 11 },
    { key: 'new', blocked_count: 5 },
  ]
  const { remaining, resolved } = evaluate(entries, { offenders, isComplete: true }, SETTINGS, NOW)
  assert.deepEqual([remaining, resolved], [2, ['silent']])
})
