import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearestMount } from '../../../src/plugin/staff-mounts.js'
import { commonClient, toOverrideClient } from '../../../src/staff/dashboard/panel-links.js'

/** Rules, and the limit without one, that tell clients apart by user. */
const BY_USER = [undefined, 'accounts']
const countsByUser = (ruleName: string | undefined) => BY_USER.includes(ruleName)

test('a client is proposed for an override as overrides spell it, whatever limit it was counted by', () => {
  const clients: [key: string, clientIp: string | null, userId: number | null, client: string | undefined][] = [
    ['ip:203.0.113.7', '203.0.113.7', null, 'ip:203.0.113.7'],
    ['ip:2001:db8:1:2::/64', '2001:db8:1:2::/64', null, 'ip:2001:db8:1:2::/64'],
    ['rule:api:203.0.113.7', '203.0.113.7', 9, 'ip:203.0.113.7'],
    ['rule:api:2001:db8:1:2::/64', '2001:db8:1:2::/64', null, 'ip:2001:db8:1:2::/64'],
    ['user:42', null, 42, 'user:42'],
    ['user:ab-12', null, null, 'user:ab-12'],
    ['rule:accounts:user:ab-12', null, null, 'user:ab-12'],
    ['rule:api:user:42', null, 42, 'user:42'],
    ['rule:partners:pk_live_7f3a', null, null, undefined],
    ['header:abc', null, null, undefined],
    ['rule:accounts:user:42|203.0.113.7', '203.0.113.7', 42, undefined],
    ['rule:accounts:user:42|/items', null, 42, undefined],
    ['203.0.113.7|/items', '203.0.113.7', null, undefined],
    ['ip:unknown', null, null, undefined],
    ['', null, null, undefined],
  ]
  for (const [key, clientIp, userId, client] of clients) {
    assert.equal(toOverrideClient({ key, clientIp, userId }, countsByUser), client, key)
  }
})

test('no client is proposed whose address or user comes from a header, or from a function of the host', () => {
  for (const [key, userId] of [
    ['rule:partners:192.0.2.77', null],
    ['rule:partners:user:7', null],
    ['rule:partners:user:7', 9],
    ['rule:partners:user:ab-12', null],
    ['ip:192.0.2.77', null],
    ['user:7', 9],
  ] as const) {
    assert.equal(toOverrideClient({ key, clientIp: null, userId }, countsByUser), undefined, key)
  }
})

test('of several events the client is proposed that all of them were counted for', () => {
  const key = 'rule:partners:192.0.2.77'
  const own = { key, clientIp: '192.0.2.77', userId: null }
  assert.equal(commonClient([own, own], countsByUser), 'ip:192.0.2.77')
  assert.equal(commonClient([own, { ...own, clientIp: null }], countsByUser), undefined)
  assert.equal(commonClient([], countsByUser), undefined)
})

test('of several mounts the nearest is linked to', () => {
  const mounts = ['/a/dashboard/', '/b/dashboard/', '/b/inner/dashboard/']
  assert.equal(nearestMount(mounts, '/b/admin'), '/b/dashboard/')
  assert.equal(nearestMount(mounts, '/b/inner/admin'), '/b/inner/dashboard/')
  assert.equal(nearestMount(mounts, '/elsewhere'), '/a/dashboard/')
  assert.equal(nearestMount([], '/a'), undefined)
})
