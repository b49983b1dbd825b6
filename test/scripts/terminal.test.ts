import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printable } from '../../scripts/commands/support/terminal.js'

test('what is printed has no control or format characters, and no half characters', () => {
  assert.equal(
    printable('a\u0000\u001b[2J\u0085\u009b1m\u202e\u2028\ud800\u{e0041}é漢🙂'),
    'a\\u0000\\u001b[2J\\u0085\\u009b1m\\u202e\\u2028\\ud800\\udb40\\udc41é漢🙂',
  )
})

test('what is printed is the same JSON as before', () => {
  const value = { key: 'rule:a:\u009b31m\u202e\u{e0041}"\\🙂\n' }
  assert.deepEqual(JSON.parse(printable(JSON.stringify(value))), value)
})
