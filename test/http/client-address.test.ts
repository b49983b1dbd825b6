import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createAddressPrivacy } from '../../src/clients/address-privacy.js'
import { NamedLists } from '../../src/clients/named-lists.js'
import { createAddressResolver, isPrivate, parseAddressList, plainIp } from '../../src/http/client-address.js'
import { collectGarbage } from '../support/garbage.js'
import { long } from '../support/long.js'

const NO_LISTS = { allow: parseAddressList('allow', []), deny: parseAddressList('deny', []), named: new NamedLists([]) }

describe('an address', () => {
  for (const [spelling, plain] of [
    ['203.0.113.7', '203.0.113.7'],
    [' 203.0.113.7 ', '203.0.113.7'],
    ['203.0.113.7:5678', '203.0.113.7'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['"[2001:db8::1]:443"', '2001:db8::1'],
    ['"203.0.113.7"', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6:50000', '2001:db8:1:2:3:4:5:6'],
    ['2001:DB8:1:2:3:4:5:6:443', '2001:db8:1:2:3:4:5:6'],
    ['::ffff:203.0.113.7:50000', '203.0.113.7'],
    ['[fe80::1%eth0]:443', 'fe80::1'],
    ['2001:db8::1:443', '2001:db8::1:443'],
    ['2001:db8::1:50000', null],
    ['2001:db8:1:2:3:4:5:6:7:443', null],
    ['unknown', null],
    ['_hidden', null],
    ['for=203.0.113.7', null],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['64:ff9b::198.51.100.1', '198.51.100.1'],
    ['64:FF9B:0:0::c633:6401', '198.51.100.1'],
    ['[64:ff9b::198.51.100.1]:443', '198.51.100.1'],
    ['::ffff:0:198.51.100.1', '198.51.100.1'],
    ['64:ff9b:1::198.51.100.1', '64:ff9b:1::c633:6401'],
    ['2002:c633:6401::1', '2002:c633:6401::1'],
    ['2001:0:4136:e378:8000:63bf:39cc:9bfe', '2001:0:4136:e378:8000:63bf:39cc:9bfe'],
    ['::198.51.100.1', '198.51.100.1'],
    ['::c633:6401', '198.51.100.1'],
    ['::', '::'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['garbage', null],
    ['', null],
    ['203.0.113', null],
    ['0203.0.113.7', null],
    ['203.0.113.7, 10.0.0.1', null],
    ["1'; DROP TABLE", null],
  ] as const) {
    test(`${spelling} is ${plain ?? 'none'}`, long(), () => assert.equal(plainIp(spelling), plain))
  }
})

describe('a client', () => {
  test('with IPv6 is its /64 network, loopback aside', () => {
    const resolve = createAddressResolver(64, NO_LISTS)
    assert.equal(resolve('2001:db8:1:2:3:4:5:6')?.client.counted.text, 'ip:2001:db8:1:2::/64')
    assert.equal(resolve('2001:db8:1:2:ffff::')?.client.counted.text, 'ip:2001:db8:1:2::/64')
    assert.equal(resolve('::1')?.client.counted.text, 'ip:::1')
    assert.equal(resolve('fec0::1')?.client.counted.text, 'ip:fec0::/64')
    assert.equal(createAddressResolver(128, NO_LISTS)('2001:db8::5')?.client.counted.text, 'ip:2001:db8::5')
    assert.equal(createAddressResolver(48, NO_LISTS)('2001:db8:1:2::5')?.client.counted.text, 'ip:2001:db8:1::/48')
  })

  test('is a whole address where the network is no client: on a link, and behind translators', () => {
    for (const ipv6Subnet of [48, 64, 128]) {
      const resolve = createAddressResolver(ipv6Subnet, NO_LISTS)
      for (const address of ['fe80::1', 'febf::2:3', '64:ff9b:1::c633:6401', '64:ff9b:1:fffe::c633:6401']) {
        assert.equal(resolve(address)?.client.counted.text, `ip:${address}`)
      }
    }
  })

  test('has its pseudonym derived once, keeps its whole address in memory alone, and cannot be named by one', () => {
    let derived = 0
    const privacy = createAddressPrivacy({ addresses: 'truncated', secret: 'a secret of the host', ipv6Subnet: 64 })
    const counting = {
      ...privacy,
      pseudonymFor(counted: string) {
        derived++
        return privacy.pseudonymFor(counted)
      },
    }
    const resolve = createAddressResolver(64, NO_LISTS, counting)
    const [first, again] = [resolve('2001:db8:1:2::5'), resolve('2001:db8:1:2::5')]
    assert.ok(first)
    assert.equal(first, again)
    assert.equal(derived, 1)
    const { logged, loggedPeer, pseudonym, plain, client } = first
    assert.deepEqual([client.counted.text, plain], [`ip:${pseudonym}`, '2001:db8:1:2::5'])
    assert.deepEqual([logged, loggedPeer], ['2001:db8:1::/48', '2001:db8:1::/48'])
    const { clear, ...stored } = client
    assert.equal(clear.text, 'ip:2001:db8:1:2::/64')
    assert.doesNotMatch(JSON.stringify(stored), /2001:db8:1:2/)
    assert.equal(resolve(pseudonym ?? ''), undefined, 'a forwarding header spells no pseudonym')
  })

  test('is listed by its whole address, the deny list going first', () => {
    const resolve = createAddressResolver(64, {
      ...NO_LISTS,
      allow: parseAddressList('allow', ['10.0.0.0/8', '2001:db8::5']),
      deny: parseAddressList('deny', ['10.6.6.6', '1.2.3.4', '::ffff:9.9.9.0/120']),
    })
    assert.equal(resolve('10.4.5.6')?.listed, 'allow')
    assert.equal(resolve('64:ff9b::1.2.3.4')?.listed, 'deny')
    assert.equal(resolve('64:ff9b::9.9.9.9')?.listed, 'deny')
    assert.equal(resolve('10.6.6.6')?.listed, 'deny')
    assert.equal(resolve('::ffff:10.1.2.3')?.listed, 'allow')
    assert.equal(resolve('::ffff:1.2.3.4')?.listed, 'deny')
    assert.equal(resolve('9.9.9.9')?.listed, 'deny')
    assert.equal(resolve('2001:db8::5')?.listed, 'allow')
    assert.equal(resolve('2001:db8::6')?.listed, null)
    assert.equal(resolve('::ffff:8.9.9.9')?.listed, null)
  })

  test('is remembered without growing for ever', () => {
    const resolve = createAddressResolver(64, NO_LISTS)
    for (let index = 0; index < 25_000; index++) {
      const address = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`
      assert.equal(resolve(address)?.client.counted.text, `ip:${address}`)
    }
  })
})

test('an address with a zone of any length is not kept', () => {
  const resolve = createAddressResolver(64, NO_LISTS)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < 5_000; index++) {
    assert.equal(resolve(`fe80::1%${index}${'A'.repeat(14_000)}`)?.client.counted.text, 'ip:fe80::1')
  }
  collectGarbage()
  assert.ok(process.memoryUsage().heapUsed - before < 10e6)
})

describe('an address list', () => {
  for (const entry of [
    '10.0.0.0/33',
    '10/8',
    'x',
    '',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '::/129',
    '64:ff9b::/96',
    '64:ff9b::/64',
    '::ffff:0:0/96',
    '1.2.3.4/8/9',
    '1.2.3.4:80',
    'fe80::1%eth0',
  ]) {
    test(`refuses ${JSON.stringify(entry)}, naming the setting and the entry`, () => {
      assert.throws(() => parseAddressList('middleware.denyList', [entry]), {
        code: 'FST_RATE_LIMIT_INVALID_SETTING',
        message: new RegExp(
          `"middleware.denyList" has a wrong entry: ${JSON.stringify(entry)} is (?:not a valid|no) .*: (?:give|the bits)`,
        ),
      })
    })
  }
})

test('private addresses are those that proxies have', () => {
  for (const ip of ['10.0.0.1', '192.168.1.1', '172.16.0.1', '127.0.0.1', '100.64.0.1', '::1', 'fd00::1', 'fe80::1']) {
    assert.equal(isPrivate(ip), true, ip)
  }
  for (const ip of ['8.8.8.8', '203.0.113.7', '2001:4860::1']) assert.equal(isPrivate(ip), false, ip)
})
