import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgress } from '../../scripts/commands/support/progress.js'
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

function start(isTTY: boolean) {
  const written: string[] = []
  const time = { ms: 0 }
  const terminal = { isTTY, write: (text: string) => written.push(text) > 0 }
  return { written, time, progress: createProgress(terminal, () => time.ms) }
}

test('progress is one line of a terminal, renewed a few times a second, that goes away at the end', () => {
  const { written, time, progress } = start(true)
  for (time.ms = 0; time.ms < 1_000; time.ms += 50) progress.show(`at ${time.ms}`)
  progress.end()

  assert.deepEqual(
    written,
    ['at 200', 'at 400', 'at 600', 'at 800', ''].map((line) => `\r\u001b[2K${line}`),
  )
})

test('there is none in a pipe', () => {
  const { written, time, progress } = start(false)
  time.ms = 1_000
  progress.show('far')
  progress.end()

  assert.deepEqual(written, [])
})

test('there is none of work that is done at once', () => {
  const { written, progress } = start(true)
  progress.show('begun')
  progress.end()

  assert.deepEqual(written, [])
})
