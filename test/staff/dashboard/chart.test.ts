import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS } from '../../../src/ground/time/clock.js'
import type { TrafficCounts } from '../../../src/reports/breakdown.js'
import type { OverTime } from '../../../src/reports/over-time.js'
import { barTime, countLines, drawChart, drawSparkline, timeLabels } from '../../../src/staff/dashboard/chart.js'
import { stack } from '../../../src/staff/dashboard/stack.js'

const START_MS = Date.UTC(2026, 0, 15)
const NONE: TrafficCounts = { total: 0, blocked: 0, would_block: 0, denied: 0 }

function overTime(barMs: number, counts: readonly Partial<TrafficCounts>[], startMs = START_MS): OverTime {
  const bars = counts.map((count, place) => ({ start_ms: startMs + place * barMs, ...NONE, ...count }))
  return { bar_ms: barMs, bars }
}

function refusals(counts: readonly (readonly [over_limit: number, denied: number])[]) {
  const bars = counts.map(([over_limit, denied], place) => ({
    start_ms: START_MS + place * HOUR_MS,
    over_limit,
    denied,
  }))
  return { bar_ms: HOUR_MS, bars }
}

function draw(barMs: number, counts: readonly Partial<TrafficCounts>[]) {
  return drawChart(overTime(barMs, counts), { rates: true })
}

test('a bar is stacked: over the limit at its foot, then what would be refused, then denials, then what was within the limit', () => {
  const { bars } = draw(HOUR_MS, [{ total: 80, blocked: 20, would_block: 30, denied: 20 }])

  assert.deepEqual(bars[0]?.segments, [
    { outcome: 'refused', start: 0, length: 20, y: 80 },
    { outcome: 'would-be-refused', start: 20, length: 30, y: 50 },
    { outcome: 'denied', start: 50, length: 20, y: 30 },
    { outcome: 'allowed', start: 70, length: 30, y: 0 },
  ])
})

test('bars share the width evenly, with gaps between them', () => {
  const { bars } = draw(HOUR_MS, [{ total: 1 }, {}, {}, { total: 1 }])

  assert.deepEqual(
    bars.map(({ x, width }) => [x, width]),
    [
      [2.5, 20],
      [27.5, 20],
      [52.5, 20],
      [77.5, 20],
    ],
  )
})

test('one blocked request among millions can be seen, and no bar is taller than the chart', () => {
  const million = 10_000_000
  for (const counts of [
    { total: million, blocked: 1, would_block: 0 },
    { total: million, blocked: 1, would_block: 1 },
    { total: million, blocked: million - 1, would_block: 1 },
    { total: million, blocked: million, would_block: 0 },
    { total: 1, blocked: 0, would_block: 1 },
    { total: Number.MAX_SAFE_INTEGER, blocked: 1, would_block: 2 },
  ]) {
    for (const most of [counts.total, counts.total * 3]) {
      const segments = stack({ ...NONE, ...counts }, most)
      for (const { length } of segments) assert.ok(length >= 1, JSON.stringify(segments))
      const end = segments.at(-1)
      assert.ok(end !== undefined && end.start + end.length <= 100.01, JSON.stringify(segments))
    }
  }
})

test('without requests there are axes, no segments, and a description that says so', () => {
  for (const counts of [[], [{}], Array.from({ length: 168 }, () => ({}))]) {
    const { bars, lines, description } = draw(HOUR_MS, counts)
    assert.deepEqual(
      bars.flatMap(({ segments }) => segments),
      [],
    )
    assert.deepEqual(
      lines.map(({ label }) => label),
      ['0', '1'],
    )
    assert.equal(description, 'No requests.')
  }
})

test('the lines are at a few round numbers, the highest no lower than the tallest bar', () => {
  const labels: readonly [most: number, labels: string][] = [
    [1, '0 1'],
    [3, '0 1 2 3'],
    [5, '0 2 4 6'],
    [20, '0 5 10 15 20'],
    [21, '0 10 20 30'],
    [99, '0 50 100'],
    [401, '0 200 400 600'],
    [4_000, '0 1K 2K 3K 4K'],
    [1_234_567, '0 500K 1M 1.5M'],
    [4e15, '0 1000T 2000T 3000T 4000T'],
  ]
  for (const [most, expected] of labels) {
    const lines = countLines(most)
    assert.equal(lines.map(({ label }) => label).join(' '), expected)
    assert.deepEqual([lines[0]?.y, lines.at(-1)?.y], [100, 0])
  }
})

test('the labels below fit the window: hours of a day, days of a week, dates of a year, never more than nine', () => {
  const labels: readonly [barMs: number, bars: number, labels: string][] = [
    [HOUR_MS, 25, 'Jan 15, 03:00, 06:00, 09:00, 12:00, 15:00, 18:00, 21:00, Jan 16'],
    [6 * HOUR_MS, 29, 'Jan 15, Jan 16, Jan 17, Jan 18, Jan 19, Jan 20, Jan 21, Jan 22'],
    [DAY_MS, 31, 'Jan 15, Jan 22, Jan 29, Feb 5, Feb 12'],
    [7 * DAY_MS, 53, 'Feb 12, Apr 9, Jun 4, Jul 30, Sep 24, Nov 19, Jan 14'],
  ]
  for (const [barMs, count, expected] of labels) {
    const { bars } = overTime(
      barMs,
      Array.from({ length: count }, () => ({})),
    )
    assert.equal(
      timeLabels(bars, barMs)
        .map(({ text }) => text)
        .join(', '),
      expected,
    )
  }
  const oddest = overTime(
    DAY_MS,
    Array.from({ length: 366 }, () => ({})),
  )
  assert.ok(timeLabels(oddest.bars, DAY_MS).length <= 9)
})

test('the description says how much there was, what became of it, and when it was most', () => {
  const { description } = draw(6 * HOUR_MS, [
    { total: 10 },
    { total: 2_000, blocked: 500, would_block: 3 },
    { total: 1, blocked: 1 },
  ])

  assert.equal(
    description,
    '2,011 requests, 501 (24.9%) of them refused, 3 would be refused. ' +
      'The most in 6 hours: 2,000 requests, 500 refused, 2026-01-15 06:00–12:00 UTC.',
  )
})

test('a log of refusals alone has no rate', () => {
  const { description } = drawChart(overTime(HOUR_MS, [{ total: 4, blocked: 3, would_block: 1 }]), { rates: false })

  assert.match(description, /^4 requests, 3 of them refused, 1 would/)
})

test('the time of a bar says from when to when', () => {
  assert.equal(barTime(START_MS + 23 * HOUR_MS, HOUR_MS), '2026-01-15 23:00–24:00')
  assert.equal(barTime(START_MS, DAY_MS), '2026-01-15')
  assert.equal(barTime(START_MS, 7 * DAY_MS), '2026-01-15 – 2026-01-21')
})

test('a sparkline has a column for every bar with refusals, denials on top, the highest as high as the box', () => {
  const { over_limit, denied, columns, description } = drawSparkline(
    refusals([
      [0, 0],
      [50, 0],
      [1, 0],
      [75, 25],
      [0, 25],
    ]),
  )

  assert.equal(over_limit, 'M1 100v-50h.9v50zM2 100v-8h.9v8zM3 100v-75h.9v75z')
  assert.equal(denied, 'M3 25v-25h.9v25zM4 100v-25h.9v25z')
  assert.equal(columns, 5)
  assert.equal(description, 'At most 75 refused and 25 denied, 2026-01-15 03:00–04:00 UTC')
})

test('a sparkline of one denial among very many requests over the limit stays in its box', () => {
  const { over_limit, denied } = drawSparkline(refusals([[1e9, 1]]))
  assert.equal(over_limit, 'M0 100v-92.59h.9v92.59z')
  assert.equal(denied, 'M0 7.41v-7.41h.9v7.41z')
  assert.equal(drawSparkline(refusals([[0, 0]])).description, 'Never refused')
})

test('a bar says its numbers in words, one in the singular, and leaves out what is zero', () => {
  const { bars } = drawChart(
    overTime(HOUR_MS, [
      { total: 1, blocked: 1 },
      { total: 2_000, would_block: 1, denied: 1 },
    ]),
    {
      rates: true,
    },
  )

  assert.deepEqual(
    bars.map(({ counts }) => counts),
    ['1 request, 1 refused', '2,001 requests, 1 would be refused, 1 denied'],
  )
})
