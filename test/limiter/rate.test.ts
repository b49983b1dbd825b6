import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MONTH_MS } from '../../src/limiter/period.js'
import { parseRate, timesRate, toPolicy, toRateText } from '../../src/limiter/rate.js'

const ACCEPTED: readonly (readonly [rate: string, limit: number, periodMs: number])[] = [
  ['100/m', 100, 60_000],
  ['1000/h', 1_000, 3_600_000],
  ['10/30s', 10, 30_000],
  ['5/s', 5, 1_000],
  ['5/sec', 5, 1_000],
  ['5/second', 5, 1_000],
  ['5/min', 5, 60_000],
  ['5/minute', 5, 60_000],
  ['5/hr', 5, 3_600_000],
  ['5/hour', 5, 3_600_000],
  ['5/d', 5, 86_400_000],
  ['5/day', 5, 86_400_000],
  ['1/1s', 1, 1_000],
  ['7/5m', 7, 300_000],
  ['7/12h', 7, 43_200_000],
  ['7/366d', 7, 31_622_400_000],
  ['0/m', 0, 60_000],
  ['2147483647/d', 2_147_483_647, 86_400_000],
]

const REFUSED = [
  '',
  '10',
  '10/',
  '/m',
  '10/x',
  'abc/m',
  '10/m/s',
  'invalid',
  '10/0s',
  '-5/m',
  '-5/30s',
  '+5/m',
  '5.5/m',
  '1e3/m',
  ' 5/m',
  '5/m ',
  '5 / m',
  '5/M',
  '5/1.5s',
  '5/-1s',
  '5/367d',
  '5/8785h',
  '5/30',
  '5/30sec',
  '5/seconds',
  '2147483648/m',
  '99999999999999999999/m',
  '1000 per hour',
  '5/m\n',
  '5/m\0',
  '5/1mo',
  '5/2month',
  '5/months',
  '10/s,',
  ',10/s',
  '10/s;1000/h',
  '10/s\t, 1/h',
  '1/s, 2/m, 3/h, 4/d, 5/2d',
  '10/s, 10/1s',
  '10/60s, 20/h, 30/m',
  '10/month, 20/mo',
  `${' '.repeat(255)}1/s, 1/m`,
  '٥/m',
]

describe('a rate', () => {
  for (const [rate, limit, periodMs] of ACCEPTED) {
    test(`${rate} allows ${limit} per ${periodMs} ms`, () => assert.deepEqual(parseRate(rate), { limit, periodMs }))
  }

  test('of several windows has each with its period as written; it is the first of them itself', () => {
    assert.deepEqual(parseRate('10/s, 1000/hour ,20000/7d'), {
      limit: 10,
      periodMs: 1_000,
      windows: [
        { limit: 10, periodMs: 1_000, period: 's' },
        { limit: 1_000, periodMs: 3_600_000, period: 'hour' },
        { limit: 20_000, periodMs: 604_800_000, period: '7d' },
      ],
    })
  })

  for (const period of ['mo', 'month']) {
    test(`5/${period} is a calendar month, for fixed windows alone`, () => {
      const rate = parseRate(`5/${period}`)
      assert.deepEqual(rate, { limit: 5, periodMs: MONTH_MS, windows: [{ limit: 5, periodMs: MONTH_MS, period }] })
      assert.deepEqual(toPolicy('fixed_window', rate), { algorithm: 'fixed_window', ...rate })
      for (const algorithm of ['sliding_window', 'token_bucket', 'leaky_bucket'] as const) {
        assert.throws(() => toPolicy(algorithm, rate), {
          code: 'FST_RATE_LIMIT_INVALID_RATE',
          message: `The window "5/${period}" is a calendar month, which goes with the algorithm fixed_window only: give that, or a length such as 30d`,
        })
      }
    })
  }

  test('of several windows is refused with the window that was not understood', () => {
    for (const [rate, complaint] of [
      ['10/s, 5/x', 'it has the window "5/x", which has the period "x"'],
      ['10/s, 5', 'it has the window "5", which has no "/"'],
      ['10/60s, 20/h, 30/m', 'it has two windows of one period, "10/60s" and "30/m"'],
      ['1/s, 2/m, 3/h, 4/d, 5/2d', 'it has 5 windows'],
    ] as const) {
      assert.throws(() => parseRate(rate), { message: new RegExp(`: ${escaped(complaint)}; accepted is`) })
    }
  })

  for (const rate of REFUSED) {
    test(`${JSON.stringify(rate)} is refused, quoted, with the accepted forms`, () => {
      assert.throws(() => parseRate(rate), {
        code: 'FST_RATE_LIMIT_INVALID_RATE',
        message: new RegExp(
          `^Invalid rate ${escaped(JSON.stringify(rate.length > 60 ? `${rate.slice(0, 60)}…` : rate))}: .*accepted is <count>/<period>`,
        ),
      })
    })
  }

  test('of a hundred thousand characters is refused with a short message', () => {
    assert.throws(
      () => parseRate('9'.repeat(100_000)),
      (error: Error) => error.message.length < 500,
    )
  })
})

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
}

test('a multiple of a rate has the multiple in each window, as far as counts go', () => {
  for (const [rate, factor, expected] of [
    ['60/m', 5, '300/m'],
    ['10/30s', 2, '20/30s'],
    ['10/s, 1000/h, 5/month', 2, '20/s, 2000/h, 10/month'],
    ['10000/month', 5, '50000/month'],
    ['0/m', 5, '0/m'],
    ['2147483647/d, 2/s', 5, '2147483647/d, 10/s'],
  ] as const) {
    assert.equal(toRateText(timesRate(parseRate(rate), factor)), expected)
    assert.deepEqual(parseRate(expected), timesRate(parseRate(rate), factor))
  }
})
