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
  ]) {
    assert.deepEqual([...(await parsePostedForm(body))], [...new URLSearchParams(body)])
  }
})
