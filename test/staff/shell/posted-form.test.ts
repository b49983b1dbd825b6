import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePostedForm } from '../../../src/staff/shell/posted-form.js'

test('a form of any size and encoding is parsed as URLSearchParams does', async () => {
  const long = 'é€😀 a+b&c=d%"\n'.repeat(20_000)
  for (const body of [
    '',
    'a=1&a=2&b',
    new URLSearchParams({ token: 'x', document: long, keep: 'true' }).toString(),
    `&&a&=b&c=${'%F0%9F%98%80'.repeat(30_000)}&d==&${'x'.repeat(70_000)}`,
    `a=${'%'.repeat(70_000)}&b=%zz%4`,
    `a=${'x%4'.repeat(50_000)}`,
    `a=${'%80'.repeat(70_000)}&b=${'%F0%9F%98'.repeat(30_000)}&c=${'%%34%4'.repeat(30_000)}`,
    // Each place in an escaped character is the end of a piece once.
    ...Array.from({ length: 12 }, (_, index) => `a=${'x'.repeat(index)}${'%F0%9F%98%80'.repeat(20_000)}`),
  ]) {
    assert.deepEqual([...(await parsePostedForm(body))], [...new URLSearchParams(body)])
  }
})

test('a form in which all is escaped keeps no other work waiting', async () => {
  const body = `document=${'%3C'.repeat(4_000_000)}`
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const form = await parsePostedForm(body)
  isOver = true
  assert.equal(form.get('document')?.length, 4_000_000)
  assert.ok(turns > 4, `the event loop turned ${turns} times`)
})
