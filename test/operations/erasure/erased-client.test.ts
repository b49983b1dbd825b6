/** What belongs to the client that is erased, and what only looks like it. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createAddressPrivacy } from '../../../src/clients/address-privacy.js'
import { addressClient, type Client, createClient } from '../../../src/clients/client.js'
import { parseClientKind } from '../../../src/clients/client-kind.js'
import {
  CEILING_LIMIT,
  DEFAULT_LIMIT,
  defaultLimitName,
  formatCounter,
  isStaffCounter,
  overrideLimitName,
  prefixLimitName,
  refusalsLimitName,
  routeLimitName,
  ruleLimitName,
  sharedLimitName,
  staffCounter,
} from '../../../src/clients/counter.js'
import { counterKey, MAX_KEY_LENGTH, storable } from '../../../src/ground/storable.js'
import { routeName } from '../../../src/http/code-counters.js'
import { ErasedClient } from '../../../src/operations/erasure/erased-client.js'

const SECRET = 'a secret of the host, long enough'
const PRIVACY = createAddressPrivacy({ addresses: 'truncated', secret: SECRET, ipv6Subnet: 64 })

function erased(client: string): ErasedClient {
  return new ErasedClient(client, 64, undefined)
}

describe('an erased client', () => {
  test('is found in every spelling, alone and in combinations', () => {
    const alice = erased('203.0.113.7')
    for (const client of ['ip:203.0.113.7', 'ip:203.0.113.7|header:x-a:1', 'user:7|ip:203.0.113.7']) {
      assert.equal(alice.has(client, true), true, client)
    }
    for (const client of [
      'ip:203.0.113.77',
      'ip:203.0.113.0/24',
      'header:x-a:\\|ip:203.0.113.7',
      'key:203.0.113.7',
      '',
    ]) {
      assert.equal(alice.has(client, true), false, client)
    }
    assert.equal(alice.has('header:x-a:1|ip:203.0.113.7', false), false, 'the value of a header alone')
  })

  test('of IPv6 is its network, with every address and override in it', () => {
    const alice = erased('ip:2001:db8:1:2::5')
    assert.deepEqual(alice.names, ['ip:2001:db8:1:2::/64'])
    for (const client of ['ip:2001:db8:1:2::/64', 'ip:2001:db8:1:2::5', 'ip:2001:db8:1:2:ffff::']) {
      assert.equal(alice.hasOverride(client), true, client)
    }
    const compressed = erased('ip:2001:0:0:2::1')
    assert.equal(compressed.hasAddress('2001::2:1:2:3:4'), true)
    assert.ok(
      compressed.tokens.every((token) => '2001::2:1:2:3:4'.includes(token)),
      'one token is in every spelling',
    )
    assert.equal(alice.hasAddress('2001:db8:1:2::99'), true)
    assert.equal(alice.hasAddress('2001:db8:1:3::99'), false)
    assert.equal(alice.hasOverride('ip:2001:db8:1::/48'), false)
    assert.equal(alice.isAmong('ip:2001:db8:1::/48'), true)
    assert.equal(alice.isAmong('ip:2001:db9::/48'), false)
    assert.equal(alice.hasCounter('rule:slow|ip:2001:db8:1:2::/64'), true)
  })

  test('of IPv6 is one address where limits count these alone, and its IPv4 address behind a translator', () => {
    const neighbour = erased('fe80::1')
    assert.deepEqual(neighbour.names, ['ip:fe80::1'])
    assert.equal(neighbour.hasAddress('fe80::2'), false)
    assert.throws(() => erased('ip:fe80::/64'), /is not a single client/)
    assert.deepEqual(erased('64:ff9b::203.0.113.7').names, ['ip:203.0.113.7'])
  })

  test('has every counter that is made for it, and none of those of another client', () => {
    const route = { method: 'GET', url: '/a', config: {} }
    const limits = [
      DEFAULT_LIMIT,
      CEILING_LIMIT,
      prefixLimitName('/auth/'),
      defaultLimitName('60000'),
      overrideLimitName(12),
      ruleLimitName('slow'),
      ruleLimitName('r|\\'.repeat(5)),
      refusalsLimitName('slow'),
      refusalsLimitName('r'.repeat(100)),
      ...['', 'a|b', 'ip:203.0.113.8|', 'x:y'].map((name) => routeLimitName('60000', name, routeName(route))),
      sharedLimitName('60000+month', 'all|'),
    ]
    const LONG = 'x'.repeat(300)
    const makers: readonly [client: string, make: (value: string) => Client, value: string, other: string][] = [
      ['ip:', addressClient, '203.0.113.7', '203.0.113.8'],
      ['ip:', addressClient, '2001:db8:1:2::/64', '2001:db8:1:3::/64'],
      ...['7', '-', 'a|ip:203.0.113.7', LONG, `${LONG}\0`].flatMap((value) =>
        ['user', 'user.org', 'header:x-api-key', 'cookie:sid', 'route', 'key'].map((name): (typeof makers)[number] => [
          `${name}:`,
          (each) => createClient({ name, value: each }),
          value,
          `${value}8`,
        ]),
      ),
      ['user:', (id) => createClient({ name: 'user', value: id }, { name: 'header:x-a', value: '1' }), '7', '8'],
      [
        'ip:',
        (ip) => createClient({ name: 'header:x-a', value: LONG.slice(200) }, { name: 'ip', value: ip }),
        '203.0.113.7',
        '203.0.113.8',
      ],
    ]
    for (const [kind, make, value, other] of makers) {
      const client = erased(kind + value)
      const countersOf = (counted: Client) =>
        limits
          .map((limit) => formatCounter(limit, counted))
          .flatMap((counter) => [counter, `shop|${counter}`])
          .map(counterKey)
      for (const counter of countersOf(make(value))) {
        assert.equal(client.hasCounter(counter), true, counter)
        assert.ok(
          client.tokens.some((token) => counter.includes(token)),
          counter,
        )
      }
      for (const counter of countersOf(make(other))) assert.equal(client.hasCounter(counter), false, counter)
    }
    for (const limit of ['refusal', 'token', 'sign-in'] as const) {
      for (const address of ['203.0.113.7', '2001:db8:1:2::/64']) {
        const counter = staffCounter(limit, addressClient(address))
        assert.deepEqual(
          [erased(address).hasCounter(counter), erased(address).hasCounter(`shop|${counter}`)],
          [true, true],
        )
        assert.equal(erased('203.0.113.8').hasCounter(counter), false)
        assert.deepEqual([isStaffCounter(counter), isStaffCounter(`shop|${counter}`)], [true, true])
      }
      const [, pseudonym = ''] = new ErasedClient('203.0.113.7', 64, PRIVACY).names
      const counter = staffCounter(limit, addressClient(pseudonym.slice(3)))
      assert.equal(new ErasedClient(pseudonym, 64, PRIVACY).hasCounter(counter), true)
    }
    for (const limit of ['sign-in-account', 'sign-in-browser'] as const) {
      const counter = staffCounter(limit, createClient({ name: 'key', value: '203.0.113.7' }))
      assert.equal(erased('203.0.113.7').hasCounter(counter), false)
      assert.equal(isStaffCounter(counter), true)
    }
    const behindLong = createClient({ name: 'header:x-a', value: LONG }, { name: 'ip', value: '203.0.113.7' })
    assert.equal(erased('203.0.113.7').hasCounter(counterKey(formatCounter(DEFAULT_LIMIT, behindLong))), true)
    const looksLikeIt = createClient({ name: 'header:x-b', value: 'header:x-a:7' })
    assert.equal(erased('header:x-a:7').hasCounter(formatCounter(DEFAULT_LIMIT, looksLikeIt)), false)
  })

  test('has counters in every scope and namespace, and none that only begins like it', () => {
    const alice = erased('ip:203.0.113.7')
    for (const counter of [
      'default|ip:203.0.113.7',
      'shop|/auth/|ip:203.0.113.7',
      'rule:slow|ip:203.0.113.7',
      'override:12|ip:203.0.113.7',
      'default|ip:203.0.113.7|header:x-a:1',
      'staff-sign-in|ip:203.0.113.7',
    ]) {
      assert.equal(alice.hasCounter(counter), true, counter)
    }
    for (const counter of [
      'default|ip:203.0.113.70',
      'default|ip:1203.0.113.7',
      'rule:203.0.113.7|user:7',
      'rule:ip:203.0.113.7|user:7',
      'default|user:203.0.113.7:x',
      'ip:203.0.113.7',
      'ip:203.0.113.7|ceiling|user:7',
    ]) {
      assert.equal(alice.hasCounter(counter), false, counter)
    }
    assert.equal(erased('user:7').hasCounter('rule:account|user:7'), true)
    assert.equal(erased('user:7').hasCounter('rule:account|user:77'), false)
  })

  test('has no counter that only contains it, and no header or rule of another name', () => {
    const kinds = new Map([
      ['api', parseClientKind('header:x-api-key')],
      ['org', parseClientKind('header:x-org')],
      ['user', parseClientKind('user')],
      ['both', parseClientKind('ip+header:x-api-key')],
    ])
    const seven = new ErasedClient('header:x-api-key:7', 64, undefined, kinds)
    for (const limit of ['rule:api', 'refusals:api', 'default', 'rule:gone', 'shop|rule:org']) {
      const counter = `${limit}|header:x-api-key:7`
      assert.equal(seven.hasCounter(counter), true, counter)
    }
    for (const client of ['user:7', 'user:7|x', 'user:a:user:7', 'header:x-org:7', 'cookie:x-api-key:7', 'key:7']) {
      assert.equal(seven.hasCounter(`rule:api|${client}`), false, client)
    }
    assert.deepEqual(
      ['rule:api:7', 'rule:both:192.0.2.1|7', 'rule:org:7', 'rule:user:user:7', 'user:7'].map((key) =>
        seven.hasKey(key),
      ),
      [true, true, false, false, false],
    )
    for (const client of ['user:7\\|x', 'user:a\\|user:7', 'header:x:user:7', 'user:a:user:7']) {
      assert.equal(erased('user:7').hasCounter(`default|${client}`), false, client)
    }
    for (const counter of ['default|header:x-a:1|user:7', 'shop|limit:60000:a:GET /x|user:7', 'override:1|user:7']) {
      assert.equal(erased('user:7').hasCounter(counter), true, counter)
    }
    assert.equal(erased('user:a|b').hasCounter('ceiling|user:a\\|b'), true)
    assert.equal(erased('ip:2001:db8::5').hasCounter('default|ip:2a00:2001:db8::/64'), false)
    assert.equal(erased('ip:2001:db8::5').hasKey('ip:2a00:2001:db8::/64'), false)
    assert.equal(erased('ip:2001:db8::5').hasKey('rule:slow:2001:db8::/64'), true)
    assert.equal(erased('ip:2001:db8::5').hasKey('ip:2001:db8::/64'), true)
  })

  test('has its pseudonym, also alone, and says what its neighbours share', () => {
    const alice = new ErasedClient('203.0.113.7', 64, PRIVACY)
    const [clear = '', pseudonym = ''] = alice.names
    assert.deepEqual([clear, alice.shared], ['ip:203.0.113.7', 'ip:203.0.113.0/24'])
    assert.equal(alice.has(`${pseudonym}|header:x-a:1`, true), true)
    const hidden = new ErasedClient(pseudonym, 64, PRIVACY)
    assert.deepEqual([hidden.names, hidden.shared], [[pseudonym], undefined])
    assert.equal(hidden.hasCounter(`rule:slow|${pseudonym}`), true)
  })

  test('is found where the log cuts its name, given whole or as the log has it', () => {
    const value = `eyJhbGciOi.${'x'.repeat(300)}`
    const logged = (text: string) => storable(text, MAX_KEY_LENGTH)
    const kinds = new Map([['api', parseClientKind('header:x-api-key')]])
    for (const name of [`header:x-api-key:${value}`, logged(`header:x-api-key:${value}`)]) {
      const client = new ErasedClient(name, 64, undefined, kinds)
      assert.equal(client.has(logged(`header:x-api-key:${value}`), false), true)
      assert.equal(client.has(logged(`header:x-api-key:another.${value}`), false), false)
    }
    const client = new ErasedClient(`header:x-api-key:${value}`, 64, undefined, kinds)
    for (const key of ['rule:api:', 'rule:gone:', 'header:']) {
      assert.equal(client.hasKey(logged(key + value)), true, key)
      assert.equal(client.hasKey(logged(`${key}another.${value}`)), false, key)
      assert.ok(
        client.tokens.some((token) => logged(key + value).includes(token)),
        key,
      )
    }
  })

  test('may be a hyphen, which is no missing part of a combination', () => {
    const client = erased('header:x-api-key:-')
    assert.equal(client.has('ip:203.0.113.7|header:x-api-key:\\-', true), true)
    assert.equal(client.has('ip:203.0.113.7|header:x-api-key:-', true), false)
  })

  test('may have any characters in its name', () => {
    for (const name of ['user:a|b', 'user:50%_[x]*', 'header:x-api-key:a:b', 'key:x (y)']) {
      const client = erased(name)
      assert.equal(client.has(name, false), true)
      const escaped = name.replace(/[\\|]/g, '\\$&')
      assert.equal(client.has(`ip:192.0.2.1|${escaped}`, true), true, escaped)
      assert.equal(client.has('ip:192.0.2.1', true), false)
    }
    assert.equal(erased('header:x-api-key:abc').hasCounter('rule:api|header:x-api-key:abc'), true)
    assert.equal(erased('header:x-api-key:abc').hasKey('rule:api:abc'), true, 'the key of an alert')
    assert.equal(erased('user:7').userId, 7)
    assert.equal(erased('user:07').userId, undefined)
  })
})
