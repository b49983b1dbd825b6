import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { describe, test } from 'node:test'
import { AddressList, listOf, MAX_LIST_ENTRIES, parseAddressLines } from '../../src/clients/address-list.js'
import { parseAddress, parseNetwork } from '../../src/clients/network.js'
import { long } from '../support/long.js'

const parse = (text: string) => parseAddressLines(Buffer.from(text))

describe('a list of addresses', () => {
  test('is read from lines with comments, blanks, CRLF and a byte order mark', async () => {
    const list = await parse('\ufeff# Partners\r\n203.0.113.7 # one\r\n\r\n  10.0.0.0/8\r\n2001:db8::/32\n# end')
    assert.equal(list.size, 3)
    for (const inside of ['203.0.113.7', '10.255.255.255', '2001:db8::1', '2001:db8:ffff:ffff::1']) {
      assert.equal(list.includes(inside), true, inside)
    }
    for (const outside of [
      '203.0.113.8',
      '9.255.255.255',
      '11.0.0.0',
      '2001:db9::',
      '::1',
      'x',
      '',
      '10.0.0',
      '10.0.0.0/8',
    ]) {
      assert.equal(list.includes(outside), false, outside)
    }
  })

  test('takes IPv4 that is written as IPv6 for IPv4, in its lines and in look-ups', async () => {
    const list = await parse('::ffff:203.0.113.0/120\n::ffff:c000:0201\n64:ff9b::198.51.100.7')
    for (const inside of ['203.0.113.9', '192.0.2.1', '198.51.100.7', '::ffff:203.0.113.200', '::FFFF:cb00:7101']) {
      assert.equal(list.includes(inside), true, inside)
    }
    assert.equal(list.includes('203.0.114.0'), false)
  })

  test('has whole families, and their first and last addresses', async () => {
    const list = await parse('0.0.0.0/0\n::/0')
    for (const inside of ['0.0.0.0', '255.255.255.255', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '1::']) {
      assert.equal(list.includes(inside), true, inside)
    }
    assert.equal((await parse('# nobody')).includes('0.0.0.0'), false)
    assert.equal(AddressList.EMPTY.includes('10.0.0.1'), false)
  })

  test('joins overlapping and adjacent networks', async () => {
    const list = await parse('10.0.0.0/9\n10.128.0.0/9\n10.1.0.0/16\n10.1.2.3\n2001:db8::/33\n2001:db8:8000::/33')
    assert.equal(list.size, 6)
    assert.equal(list.bytes, 2 * 4 + 2 * 16)
    assert.equal(list.includes('10.200.0.1'), true)
    assert.equal(list.includes('2001:db8:ffff::'), true)
  })

  for (const [line, problem] of [
    ['<html>', /"<html>" in line 2/],
    ['10.0.0.0/33', /"10.0.0.0\/33" in line 2/],
    ['10.0.0.0/', /line 2/],
    ['10.0.0.0/8/8', /line 2/],
    ['010.0.0.1', /line 2/],
    ['256.0.0.1', /line 2/],
    ['fe80::1%eth0', /line 2/],
    ['2001:db8::/129', /line 2/],
    ['1.2.3.4, 1.2.3.5', /line 2/],
    ['x'.repeat(5_000), /line 2/],
  ] as const) {
    test(`is refused as a whole for the line ${line.slice(0, 20)}`, async () => {
      await assert.rejects(parse(`10.0.0.1\n${line}\n10.0.0.2`), problem)
    })
  }

  test('has a million entries, and not one more', long(), async () => {
    const lines = Array.from(
      { length: MAX_LIST_ENTRIES },
      (_, index) => `${(index % 200) + 1}.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
    )
    const list = await parse(lines.join('\n'))
    assert.equal(list.size, MAX_LIST_ENTRIES)
    assert.equal(list.includes(lines[777_777] ?? ''), true)
    assert.ok(list.bytes <= 40 * 1024 * 1024)
    await assert.rejects(parse(`${lines.join('\n')}\n203.0.113.7`), /more than 1000000 entries/)
    await assert.rejects(parseAddressLines(Buffer.alloc(32 * 1024 * 1024 + 1, '\n')), /larger than 32 MB/)
  })

  test('tells whether it has an address of a network', async () => {
    const list = await listOf(['10.1.2.3', '10.1.3.0/24', '2001:db8::5'].map(parseNetwork))
    for (const [network, meets] of [
      ['10.1.0.0/16', true],
      ['10.1.3.128/25', true],
      ['10.1.2.0/31', false],
      ['2001:db8::/64', true],
      ['2001:db8:0:1::/64', false],
      ['0.0.0.0/0', true],
    ] as const) {
      assert.equal(list.meets(parseNetwork(network)), meets, network)
    }
  })

  test('reads every spelling as the parser of addresses does', long(), async () => {
    // A generator with a seed, so that a failure comes again.
    let state = 7
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31
      return Math.floor((state / 2 ** 31) * below)
    }
    const pieces = [
      '::',
      ':',
      '.',
      '0',
      '00',
      '1',
      'a',
      'ff',
      'FFFF',
      '255',
      '256',
      '12345',
      '::ffff:',
      '64:ff9b::',
      '1.2.3.4',
      '%e',
    ]
    for (let round = 0; round < 20_000; round++) {
      const text = Array.from({ length: 1 + random(12) }, () => pieces[random(pieces.length)]).join('')
      const [withoutZone = ''] = text.split('%')
      const isAddress = isIP(text) !== 0
      const list = await (isAddress
        ? listOf([parseNetwork(parseAddress(withoutZone).toString())])
        : listOf(['0.0.0.0/0', '::/0'].map(parseNetwork)))
      assert.equal(list.includes(text), isAddress, text)
      if (isAddress && !text.includes('%')) {
        assert.equal((await parse(text)).includes(parseAddress(text).toString()), true, text)
      }
    }
  })

  test('finds what a simple search finds among random networks', async () => {
    let state = 3
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31
      return Math.floor((state / 2 ** 31) * below)
    }
    const spell = () =>
      random(2) === 0
        ? `10.${random(4)}.${random(256)}.${random(256)}`
        : `2001:db8:${random(3).toString(16)}:${random(65_536).toString(16)}::${random(9).toString(16)}`
    for (let round = 0; round < 50; round++) {
      const entries = Array.from({ length: 40 }, () => {
        const address = spell()
        return random(2) === 0 ? address : `${address}/${address.includes(':') ? 40 + random(89) : 12 + random(21)}`
      })
      const list = await parse(entries.join('\n'))
      const networks = entries.map(parseNetwork)
      for (let look = 0; look < 100; look++) {
        const text = spell()
        const address = parseAddress(text)
        const expected = networks.some(
          (network) =>
            network.family === address.kind() && address.match(parseAddress(network.address) as never, network.bits),
        )
        assert.equal(list.includes(text), expected, `${text} in ${entries.join(' ')}`)
      }
    }
  })
})
