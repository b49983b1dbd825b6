import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeDifference } from '../../scripts/docs/samples.js'

test('the output of a sample is compared, but for what the page leaves open', () => {
  const same: readonly (readonly [printed: string, documented: string])[] = [
    ['one\ntwo\n', 'one\ntwo\n'],
    ['HTTP/1.1 200 OK\r\nDate: today\r\n\r\nok', 'HTTP/1.1 200 OK\n…\nok'],
    ['retry in 12 seconds', 'retry in … seconds'],
    ['first\nlast', 'first\n…\nlast'],
    ['first\n1\n2\n', 'first\n…\n'],
    ['a.b (c)  \n', 'a.b (c)'],
  ]
  for (const [printed, documented] of same) assert.equal(describeDifference(printed, documented), null)
  const different: readonly (readonly [printed: string, documented: string])[] = [
    ['one\n', 'one\ntwo\n'],
    ['one\ntwo\n', 'one\n'],
    ['axb (c)', 'a.b (c)'],
    ['', 'one'],
    [`${'a '.repeat(2_000)}\n`.repeat(20), '…\nb\n…\nc'],
  ]
  for (const [printed, documented] of different)
    assert.match(describeDifference(printed, documented) ?? 'same', /^prints\n/)
})
