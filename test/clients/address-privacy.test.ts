/** The spellings of addresses that are not stored in full. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAddressPrivacy, PSEUDONYM, truncated } from '../../src/clients/address-privacy.js'

const SECRET = 'a secret of the host, long enough'
const pseudonym = createAddressPrivacy({ addresses: 'pseudonym', secret: SECRET, ipv6Subnet: 64 })
const shortened = createAddressPrivacy({ addresses: 'truncated', secret: SECRET, ipv6Subnet: 64 })

test('an address is shortened to its /24, of IPv6 to its /48, and no larger network is widened', () => {
  for (const [counted, expected] of [
    ['203.0.113.7', '203.0.113.0/24'],
    ['2001:db8:1:2::/64', '2001:db8:1::/48'],
    ['2001:db8:1:2::5', '2001:db8:1::/48'],
    ['2001:d00::/24', '2001:d00::/24'],
    ['::1', '::/48'],
  ] as const) {
    assert.equal(truncated(counted), expected)
    assert.equal(shortened.loggedFor(counted), expected)
  }
})

test('a pseudonym is the same for the same client whatever the mode, and another one with another secret', () => {
  const its = pseudonym.pseudonymFor('203.0.113.7')
  assert.match(its, PSEUDONYM)
  assert.equal(shortened.pseudonymFor('203.0.113.7'), its)
  assert.notEqual(pseudonym.pseudonymFor('203.0.113.8'), its)
  const other = createAddressPrivacy({ addresses: 'pseudonym', secret: `${SECRET}!`, ipv6Subnet: 64 })
  assert.notEqual(other.pseudonymFor('203.0.113.7'), its)
})

test('what operators spell is found as it is stored, and what is no single address stays', () => {
  const ipv4 = pseudonym.pseudonymFor('203.0.113.7')
  const ipv6 = pseudonym.pseudonymFor('2001:db8:1:2::/64')
  for (const [spelled, stored] of [
    ['ip:203.0.113.7', `ip:${ipv4}`],
    ['203.0.113.7', ipv4],
    ['ip:::ffff:203.0.113.7', `ip:${ipv4}`],
    ['rule:login:203.0.113.7', `rule:login:${ipv4}`],
    ['ip:203.0.113.7|header:x-a:1', `ip:${ipv4}|header:x-a:1`],
    ['ip:2001:db8:1:2:3::5', `ip:${ipv6}`],
    ['ip:2001:db8:1:2::/64', `ip:${ipv6}`],
    [`ip:${ipv4}`, `ip:${ipv4}`],
    ['ip:64:ff9b::203.0.113.7', `ip:${ipv4}`],
    ['ip:fe80::1', `ip:${pseudonym.pseudonymFor('fe80::1')}`],
    ['ip:fe80::/64', 'ip:fe80::/64'],
    ['ip:203.0.113.0/24', 'ip:203.0.113.0/24'],
    ['ip:2001:db8::/32', 'ip:2001:db8::/32'],
    ['user:7', 'user:7'],
    ['ip:unknown', 'ip:unknown'],
    ['header:x-a:203.0.113.7', 'header:x-a:203.0.113.7'],
    ['', ''],
  ] as const) {
    assert.equal(pseudonym.toLogged(spelled), stored, spelled)
    assert.equal(shortened.toCounted(spelled), stored, spelled)
  }
  assert.equal(shortened.toLogged('rule:login:203.0.113.7'), 'rule:login:203.0.113.0/24')
  assert.equal(shortened.isShortened('ip:203.0.113.0/24'), true)
  assert.equal(shortened.isShortened(`ip:${ipv4}`), false)
  assert.equal(pseudonym.isShortened('ip:203.0.113.0/24'), false)
})
