import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseRate } from '../../src/limiter/rate.js'

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
  '٥/m',
]

describe('a rate', () => {
  for (const [rate, limit, periodMs] of ACCEPTED) {
    test(`${rate} allows ${limit} per ${periodMs} ms`, () => assert.deepEqual(parseRate(rate), { limit, periodMs }))
  }

  for (const rate of REFUSED) {
    test(`${JSON.stringify(rate)} is refused, quoted, with the accepted forms`, () => {
      assert.throws(() => parseRate(rate), {
        code: 'FST_RATE_LIMIT_INVALID_RATE',
        message: new RegExp(`^Invalid rate ${escaped(JSON.stringify(rate))}: .*accepted is <count>/<period>`),
      })
    })
  }

  test('of a hundred thousand characters is refused with a short message', () => {
    assert.throws(
      () => parseRate('9'.repeat(100_000)),
      (error: Error) => error.message.length < 400,
    )
  })
})

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
}
