/** The rate that a raise starts from. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generousRate, isLess } from '../../../src/staff/dashboard/generous-rate.js'

test('the most generous rate is the one below which none is, else the most that all allow in each period', () => {
  for (const [rates, most] of [
    [['10/m', '100/m'], '100/m'],
    [['5/h', '100/m'], '100/m'],
    [['10/m, 100/h', '100/m'], '100/m'],
    [['100/m', '1000/h'], '1000/m, 6000/h'],
    [['0/m', '3/s'], '3/s'],
    [['2/d', '60/month'], '60/d, 64/month'],
    // At most four windows: without the longest one the rate is only more generous.
    [['1/s, 2/m, 3/h, 4/d', '1/30s'], '1/s, 2/30s, 2/m, 120/h'],
    [['2147483647/s', '1/d, 2147483647/h'], '2147483647/s'],
  ] as const) {
    assert.equal(generousRate(rates), most, String(rates))
  }
})

test('a rate is less where it can refuse what another one allows', () => {
  assert.equal(isLess('20/m', '100/m'), true)
  assert.equal(isLess('20/s', '100/m'), true)
  assert.equal(isLess('100/s', '100/m'), false)
  for (const text of ['', 'x']) assert.equal(isLess('20/m', text), false)
})
