import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { countAddress, createHeaderHash, underRule } from '../../src/clients/limit-client.js'
import { counted } from '../support/limit-clients.js'

describe('a client of a limit', () => {
  test('says by the counter which kind it is, so that no header meets the counter of an address or a user', () => {
    const counters = [
      underRule('api', counted('header:x-key', '203.0.113.7')),
      underRule('api', counted('header:x-key', 'user:7')),
      underRule('api', countAddress('203.0.113.7')),
      underRule('api', counted('user', '7')),
    ].map(({ counter }) => counter)
    assert.equal(new Set(counters).size, 4)
    assert.equal(underRule('api', counted('header:x-key', 'user:7')).key, 'rule:api:user:7')
  })

  test('of any length is counted by at most 255 characters, and two long ones apart', () => {
    const [a, b] = ['a', 'b'].map((end) => 'x'.repeat(15_000) + end)
    for (const name of ['header:x-key', 'user', 'key']) {
      const [first, second] = [counted(name, a ?? ''), counted(name, b ?? '')]
      assert.notEqual(first.counter, second.counter)
      assert.ok(underRule('r'.repeat(100), first).counter.length <= 255)
    }
  })

  test('that is a hashed header shows its first characters and no more than a quarter of it', () => {
    const hash = createHeaderHash('a secret of the server')
    assert.match(hash('sk-live-0123456789abcdef'), /^sk-l~[0-9a-f]{32}$/)
    assert.match(hash('abc'), /^~[0-9a-f]{32}$/)
    assert.equal(hash('sk-live-0123456789abcdef'), hash('sk-live-0123456789abcdef'))
    assert.notEqual(hash('sk-live-0123456789abcdef'), createHeaderHash('another secret')('sk-live-0123456789abcdef'))
  })
})
