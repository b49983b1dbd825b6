import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorLine } from '../../src/ground/errors.js'

test('an error is described in one line', () => {
  assert.equal(errorLine(new Error('first\n  second\n\nthird\n')), 'first second third')
})

test('an error is described by its code where the message is empty, as for a host with several addresses', () => {
  const error = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })
  assert.equal(errorLine(error), 'ECONNREFUSED')
})
