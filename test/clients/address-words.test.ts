import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { test } from 'node:test'
import ipaddr from 'ipaddr.js'
import { type AddressWords, addressWords } from '../../src/clients/address-words.js'
import { parseAddress } from '../../src/clients/network.js'
import { fc } from '../support/properties.js'

/** Returns the words as the library reads them. */
function expected(text: string): AddressWords | undefined {
  if (isIP(text) === 0) return undefined
  const address = parseAddress(text.split('%', 1).join())
  const bytes = Buffer.from(address.toByteArray())
  return address instanceof ipaddr.IPv4
    ? [bytes.readUInt32BE(0)]
    : [bytes.readUInt32BE(0), bytes.readUInt32BE(4), bytes.readUInt32BE(8), bytes.readUInt32BE(12)]
}

test('addresses in all spellings, and texts that are none, have the words that the library reads', () => {
  const group = fc.oneof(
    fc.constant(''),
    fc.integer({ min: 0, max: 0x1ffff }).map((value) => value.toString(16)),
  )
  const octet = fc.integer({ min: 0, max: 300 }).map(String)
  const bytes = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 255 })), { minLength: 16, maxLength: 16 })
  const text = fc.oneof(
    fc.array(group, { minLength: 1, maxLength: 10 }).map((groups) => groups.join(':')),
    fc.array(octet, { minLength: 3, maxLength: 5 }).map((octets) => octets.join('.')),
    bytes.map((each) => new ipaddr.IPv6(each).toString()),
    fc.tuple(fc.constantFrom('::', '::ffff:', '64:ff9b::'), fc.ipV4()).map((parts) => parts.join('')),
    fc.ipV6(),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdefF:.%'), maxLength: 20 }),
  )
  fc.assert(
    fc.property(text, (each) => {
      assert.deepEqual(addressWords(each), expected(each))
    }),
    { numRuns: 5_000 },
  )
})

test('an address with a number that may be octal, or is too long, is none', () => {
  for (const text of ['010.0.0.1', '1.2.3.04', `${'0'.repeat(100)}::1`, '1.2.3', '', ' 1.2.3.4']) {
    assert.equal(addressWords(text), undefined, text)
  }
})
