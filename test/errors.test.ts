import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorLine } from '../src/errors.js'

test('what went wrong is told in one line', () => {
  assert.equal(errorLine(new Error('first\n  second\n\nthird\n')), 'first second third')
})

test('what went wrong is told by its code where the message is empty, as for a host with several addresses', () => {
  const error = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })
  assert.equal(errorLine(error), 'ECONNREFUSED')
})
