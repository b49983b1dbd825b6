import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SuggestedRates } from '../../../../src/reports/preview/suggested-rates.js'
import { proposeRule } from '../../../../src/staff/dashboard/rules/proposed-rule.js'

const SUGGESTED: SuggestedRates = {
  days: 7,
  requests: 9,
  sampled: null,
  clients: 9,
  per_minute: [{ percentile: 95, rate: '354/m', refused_clients: 0, refused_requests: 0 }],
  per_hour: [],
}

test('a proposed rule lets no more through than the rules that decide now', () => {
  const rateAbove = (...rates: string[]) => {
    const rules = rates.map((rate, place) => ({ name: `rule-${place}`, group: '', priority: place, rate }))
    // The last one decides about other requests.
    const deciding = new Set(rules.slice(0, -1).map(({ name }) => name))
    const filter = { path: '/login', method: 'POST', routedPath: (received: string) => received }
    return proposeRule({ ...filter, suggested: SUGGESTED, rules, deciding }).rate
  }
  assert.equal(rateAbove('1/m'), '354/m')
  assert.equal(rateAbove('400/m', '1/m'), '354/m')
  assert.equal(rateAbove('10/m', '1/m'), '10/m')
  assert.equal(rateAbove('10/m', '100/h', '1/m'), '100/h')
  assert.equal(rateAbove('100/s, 1000/h', '100/m', '1/m'), '100/s, 1000/h')
})

test('a proposed rule comes before the rules of its own group, which has no name', () => {
  const rules = [
    { name: 'team', group: 'team', priority: 7, rate: '1/m' },
    { name: 'login', group: '', priority: 3, rate: '10/m' },
  ]
  const deciding = new Set(rules.map(({ name }) => name))
  const filter = { path: '/login', method: 'POST', routedPath: (received: string) => received }
  const { rate, priority } = proposeRule({ ...filter, suggested: SUGGESTED, rules, deciding })
  assert.deepEqual([rate, priority], ['10/m', '4'])
})
