import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { describeError, printable } from '../../scripts/commands/support/terminal.js'

describe('what is printed', () => {
  test('has no control or format characters, and no half characters', () => {
    assert.equal(
      printable('a\u0000\u001b[2J\u0085\u009b1m\u202e\u2028\ud800\u{e0041}é漢🙂'),
      'a\\u0000\\u001b[2J\\u0085\\u009b1m\\u202e\\u2028\\ud800\\udb40\\udc41é漢🙂',
    )
  })

  test('is the same JSON as before', () => {
    const value = { key: 'rule:a:\u009b31m\u202e\u{e0041}"\\🙂\n' }
    assert.deepEqual(JSON.parse(printable(JSON.stringify(value))), value)
  })
})

describe('what went wrong', () => {
  test('is told in one line', () => {
    assert.equal(describeError(new Error('first\n  second\n\nthird\n')), 'first second third')
  })

  test('is told by its code where the message is empty, as for a host with several addresses', () => {
    const error = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })
    assert.equal(describeError(error), 'ECONNREFUSED')
  })
})
