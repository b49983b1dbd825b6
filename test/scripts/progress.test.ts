import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgress } from '../../scripts/commands/support/progress.js'

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
