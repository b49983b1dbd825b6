import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CountChange, figures, toCountChange } from '../../../src/staff/dashboard/figures.js'

const said = ({ arrow, words }: CountChange) => `${arrow} ${words}`.trim()

function counts(allowed: number, refused: number, wouldBe = 0, denied = 0) {
  return { allowed, refused, 'would-be-refused': wouldBe, denied }
}

const textsOf = (shown: ReturnType<typeof figures>) =>
  shown.map(({ label, value, share, change }) =>
    [label, value, share, change && said(change)].filter((text) => text !== undefined && text !== '').join(' '),
  )

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

test('there are five numbers at most, and none of them is zero', () => {
  assert.deepEqual(textsOf(figures(counts(60, 20, 15, 5), { onlyBlocked: false })), [
    'Requests 100',
    'Allowed 60 60.0%',
    'Refused 20 20.0%',
    'Would be refused 15 15.0%',
    'Denied 5 5.0%',
  ])
  assert.deepEqual(textsOf(figures(counts(7, 0), { onlyBlocked: false })), ['Requests 7', 'Allowed 7 100%'])
})

test('each number has its change since the time before, unless there were no requests', () => {
  const now = counts(1_500, 500)
  assert.deepEqual(textsOf(figures(now, { before: counts(1_000, 1_000), onlyBlocked: false })), [
    'Requests 2,000 as many',
    'Allowed 1,500 75.0% ▲ 50% more',
    'Refused 500 25.0% ▼ 50% fewer',
  ])
  assert.deepEqual(textsOf(figures(now, { before: counts(0, 0), onlyBlocked: false })), [
    'Requests 2,000',
    'Allowed 1,500 75.0%',
    'Refused 500 25.0%',
  ])
})

test('of a log of refusals alone there is neither a sum nor a share', () => {
  assert.deepEqual(textsOf(figures(counts(0, 10, 2), { before: counts(0, 5, 1), onlyBlocked: true })), [
    'Refused 10 ▲ 2× as many',
    'Would be refused 2 ▲ 2× as many',
  ])
})

test('a number shows and hides its series, but the sum of all has none', () => {
  const shown = figures(counts(1, 1), { onlyBlocked: false, toggle: (series) => ({ href: series, hidden: false }) })
  assert.deepEqual(
    shown.map(({ href }) => href),
    [undefined, 'allowed', 'over_limit'],
  )
})
