import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CountedLimit,
  type DecisionSeries,
  DecisionTally,
} from '../../../src/operations/metrics/decision-tally.js'

function limitNamed(name: string, others: Partial<CountedLimit> = {}): CountedLimit {
  const policy = { algorithm: 'fixed_window', limit: 1, periodMs: 60_000 } as const
  return { ruleName: name, policyName: name, block: true, isDenial: false, policy, ...others }
}

test('of ten thousand rules the first 500 that decide have series of their own, and the others one together', () => {
  const tally = new DecisionTally()
  const limits = Array.from({ length: 10_000 }, (_, place) => limitNamed(`rule ${place}`))
  for (const limit of limits) tally.count(limit, false)
  for (const limit of limits) tally.count(limit, true)

  const series = [...tally.series()]
  assert.equal(series.length, 2 * 501)
  assert.deepEqual(series.filter(({ labels }) => labels.rule === 'rule 499' || labels.rule === 'other').map(seen), [
    'rule 499 rule 499 allowed 1',
    'rule 499 rule 499 blocked 1',
    'other other allowed 9500',
    'other other blocked 9500',
  ])
  tally.count(limitNamed('rule 3'), true)
  assert.ok([...tally.series()].map(seen).includes('rule 3 rule 3 allowed 2'))
})

test('a rule that was edited goes on with its series', () => {
  const tally = new DecisionTally()
  tally.count(limitNamed('api', { block: false }), true)
  tally.count(limitNamed('api', { block: false }), false)
  tally.count(limitNamed('api'), true)
  tally.count(limitNamed('api'), false)

  assert.deepEqual([...tally.series()].map(seen), ['api api allowed 2', 'api api would_block 1', 'api api blocked 1'])
})

test('a rule and a limit of another kind that have the same name are counted separately', () => {
  const tally = new DecisionTally()
  tally.count(limitNamed('default'), true)
  tally.count(limitNamed('default', { ruleName: '' }), false)

  assert.deepEqual([...tally.series()].map(seen), [
    'default default allowed 1',
    'default default blocked 0',
    ' default allowed 0',
    ' default blocked 1',
  ])
})

test('denials are an outcome of their own, and no refusals of the override that has the same name', () => {
  const tally = new DecisionTally()
  const override = { ruleName: '', policyName: 'override' }
  tally.count(limitNamed('', { ...override, isDenial: true }), false)
  tally.count(limitNamed('', override), false)

  assert.deepEqual([...tally.series()].map(seen), [' override denied 1', ' override allowed 0', ' override blocked 1'])
})

function seen({ labels: { rule, policy, outcome }, value }: DecisionSeries): string {
  return `${rule} ${policy} ${outcome} ${value}`
}
