import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CountChange, summary, toCountChange, toRateChange } from '../../../src/staff/dashboard/summary.js'

const said = ({ arrow, words }: CountChange) => `${arrow} ${words}`.trim()

function counts(total: number, blocked: number, days = 1) {
  return { days, total, blocked, allowed: total - blocked, block_rate: total === 0 ? 0 : blocked / total }
}

test('a change is said in words, and is never infinite or no number', () => {
  const changes: readonly [now: number, before: number, said: string][] = [
    [0, 0, 'none before'],
    [5, 5, 'as many'],
    [5, 0, '▲ none before'],
    [0, 1_200, '▼ 1,200 before'],
    [112, 100, '▲ 12% more'],
    [88, 100, '▼ 12% fewer'],
    [1_001, 1_000, '▲ <1% more'],
    [1, 1_000, '▼ >99% fewer'],
    [199, 100, '▲ 99% more'],
    [200, 100, '▲ 2× as many'],
    [345, 100, '▲ 3.5× as many'],
    [9_949, 100, '▲ 99× as many'],
    [1_000_000, 1, '▲ 1 before'],
  ]
  for (const [now, before, expected] of changes) assert.equal(said(toCountChange(now, before)), expected)
})

test('a change of a rate is in points', () => {
  assert.equal(said(toRateChange(0.25, 0.204)), '▲ 4.6 points more')
  assert.equal(said(toRateChange(0.1, 0.11)), '▼ 1 point less')
  assert.equal(said(toRateChange(0.3, 0.30004)), 'about the same')
})

test('a card without requests before says so, and compares nothing', () => {
  const { before, figures } = summary(counts(10, 5), { window: { days: 1 }, before: counts(0, 0), onlyBlocked: false })

  assert.equal(before, 'No requests in the 24 hours before')
  assert.deepEqual(
    figures.map(({ value, change }) => [value, change]),
    [
      ['10', undefined],
      ['5', undefined],
      ['5', undefined],
      ['50.0%', undefined],
    ],
  )
})

test('a card says what it is compared with', () => {
  const { before, figures } = summary(counts(0, 0, 7), {
    window: { days: 7 },
    before: counts(2_000, 500, 7),
    onlyBlocked: false,
  })

  assert.equal(before, 'Compared with the 7 days before: 2,000 requests, 500 refused (25.0%)')
  assert.deepEqual(
    figures.map(({ change }) => change && said(change)),
    ['▼ 2,000 before', '▼ 1,500 before', '▼ 500 before', undefined],
  )
})

test('of a log of refusals alone a card shows no rate', () => {
  const { before, figures, bar_label, segments } = summary(counts(12, 10), {
    window: { days: 1 },
    before: counts(9, 5),
    onlyBlocked: true,
  })

  assert.deepEqual(
    figures.map(({ label, value }) => [label, value]),
    [
      ['Refused', '10'],
      ['Let through', '2'],
    ],
  )
  assert.equal(before, 'Compared with the 24 hours before: 5 refused')
  assert.deepEqual([bar_label, segments], ['', []])
})
