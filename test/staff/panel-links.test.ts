import assert from 'node:assert/strict'
import { test } from 'node:test'
import { panelLinks } from '../../src/staff/panel-links.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)

test('a client is proposed for an override as overrides spell it, whatever limit it was counted by', () => {
  const clients: [key: string, client: string | undefined][] = [
    ['ip:203.0.113.7', 'ip:203.0.113.7'],
    ['ip:2001:db8:1:2::/64', 'ip:2001:db8:1:2::/64'],
    ['user:42', 'user:42'],
    ['rule:api:203.0.113.7', 'ip:203.0.113.7'],
    ['rule:api:2001:db8:1:2::/64', 'ip:2001:db8:1:2::/64'],
    ['rule:api:user:42', 'user:42'],
    ['rule:partners:pk_live_7f3a', undefined],
    ['header:abc', undefined],
    ['ip:unknown', undefined],
    ['', undefined],
  ]
  for (const [key, client] of clients) {
    const { block } = panelLinks('/admin', key, NOW_MS)
    const found = block === undefined ? undefined : new URL(block, 'http://localhost').searchParams.get('client')
    assert.equal(found ?? undefined, client, key)
  }
})

test('a proposed override ends after a day, and nothing in a key gets out of the address', () => {
  const { events, block, limit } = panelLinks('/admin', 'user:"><script>&effect=allow#', NOW_MS)
  const { searchParams } = new URL(block ?? '', 'http://localhost')
  assert.deepEqual(
    [...searchParams],
    [
      ['client', 'user:"><script>&effect=allow#'],
      ['effect', 'deny'],
      ['expiresAt', '2026-01-16T12:00:00.000Z'],
    ],
  )
  assert.equal(new URL(limit ?? '', 'http://localhost').searchParams.get('effect'), '10/m')
  assert.doesNotMatch(`${events}${block}${limit}`, /["<>#]/)
})
