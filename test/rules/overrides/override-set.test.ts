import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import ipaddr from 'ipaddr.js'
import { RE2JS } from 're2js'
import { parseOverrideClient } from '../../../src/clients/override-client.js'
import { parseOverride } from '../../../src/rules/overrides/override.js'
import { type ActiveOverride, compareOverrides, OverrideSet } from '../../../src/rules/overrides/override-set.js'
import { fc } from '../../support/properties.js'

const AS_WRITTEN = { caseSensitive: true, ignoreTrailingSlash: false }

interface Given {
  readonly client: string
  readonly effect?: string
  readonly pathPattern?: string
  readonly expiresAt?: number | null
}

/** Overrides with the ids 1, 2, 3, … */
function overridesOf(rows: readonly Given[]): ActiveOverride[] {
  return rows.map(({ client, effect = 'deny', pathPattern = '', expiresAt = null }, place) => ({
    id: place + 1,
    ...parseOverride({ client, effect, algorithm: 'fixed_window', pathPattern, expiresAt }),
  }))
}

function setOf(rows: readonly Given[], options = AS_WRITTEN): Promise<OverrideSet> {
  return changed(OverrideSet.empty(options), overridesOf(rows))
}

/** The set with rows put in and removed. */
function changed(set: OverrideSet, put: readonly ActiveOverride[], removed: readonly number[] = []) {
  const changes = new Map<number, ActiveOverride | null>(put.map((override) => [override.id, override]))
  for (const id of removed) changes.set(id, null)
  return set.with(changes)
}

/** What a scan of all overrides, one by one, makes of a request. */
function naive(overrides: readonly ActiveOverride[], address: string | null, user: string | null, path: string) {
  const matching = overrides.filter(({ client, pathPattern }) => {
    if (pathPattern !== '' && !RE2JS.compile(pathPattern).test(path)) return false
    if (client.kind === 'user') return client.id === user
    if (address === null || client.kind === 'pseudonym') return false
    const ip = ipaddr.parse(address)
    return ip.kind() === client.family && ip.match(ipaddr.parse(client.address), client.bits)
  })
  return matching.sort(compareOverrides)[0]
}

describe('an override set', () => {
  test('knows whom an override in force lets through, the whole or a part, on any path', async () => {
    const set = await setOf([
      { client: 'ip:203.0.113.7', effect: 'allow', pathPattern: '^/health' },
      { client: 'ip:10.0.0.0/8', effect: 'allow' },
      { client: 'ip:2001:db8:1:2::5', effect: 'allow' },
      { client: 'user:7', effect: 'allow', expiresAt: 1_000 },
      { client: 'ip:198.51.100.7', effect: '5/m' },
      { client: 'ip:198.51.100.8' },
    ])
    const allows = (client: string, nowMs = 0) => set.allows(parseOverrideClient(client), nowMs)
    for (const client of ['ip:203.0.113.7', 'ip:10.1.2.3', 'ip:2001:db8:1:2::/64', 'ip:2001:db8:1:2::5', 'user:7']) {
      assert.equal(allows(client), true, client)
    }
    for (const client of ['ip:203.0.113.8', 'ip:2001:db8:1:3::/64', 'user:8', 'ip:198.51.100.7', 'ip:198.51.100.8']) {
      assert.equal(allows(client), false, client)
    }
    assert.equal(allows('user:7', 1_000), false)
    const later = await changed(set, overridesOf([{ client: 'ip:203.0.113.9', effect: 'allow' }]), [2, 3])
    const [before, after] = ['ip:203.0.113.7', 'ip:203.0.113.9'].map((client) => {
      return later.allows(parseOverrideClient(client), 0)
    })
    assert.deepEqual([before, after], [false, true], 'the first one was replaced')
    assert.equal(later.allows(parseOverrideClient('ip:2001:db8:1:2::/64'), 0), false)
    assert.equal(later.allows(parseOverrideClient('ip:10.1.2.3'), 0), false)
  })

  test('finds an address, a network of either family, and a user', async () => {
    const set = await setOf([{ client: 'ip:203.0.113.7' }, { client: 'ip:10.0.0.0/8' }, { client: 'ip:2001:db8::/32' }])
    const idAt = (address: string) => set.find(address, null, '/', 0)?.id
    assert.deepEqual(['203.0.113.7', '10.255.0.1', '2001:db8:ffff::1'].map(idAt), [1, 2, 3])
    assert.deepEqual(['203.0.113.8', '11.0.0.0', '2001:db9::', '::', '0.0.0.0'].map(idAt), Array(5).fill(undefined))
    assert.equal(set.hasUsers, false)
    assert.equal((await setOf([{ client: 'user:7' }])).find(null, '7', '/', 0)?.id, 1)
    assert.equal((await setOf([{ client: 'user:7' }])).find('7.7.7.7', '77', '/', 0), undefined)
  })

  test('a network of length 0 is its whole family, and not the other', async () => {
    const set = await setOf([{ client: 'ip:0.0.0.0/0' }])
    assert.equal(set.find('255.1.2.3', null, '/', 0)?.id, 1)
    assert.equal(set.find('2001:db8::1', null, '/', 0), undefined)
    assert.equal((await setOf([{ client: 'ip:::/0' }])).find('2001:db8::1', null, '/', 0)?.id, 1)
    assert.equal((await setOf([{ client: 'ip:::/0' }])).find('1.2.3.4', null, '/', 0), undefined)
  })

  test('an IPv4-mapped address in a row is the IPv4 client', async () => {
    assert.equal((await setOf([{ client: 'ip:::ffff:203.0.113.7' }])).find('203.0.113.7', null, '/', 0)?.id, 1)
    assert.equal((await setOf([{ client: 'ip:::ffff:10.0.0.0/104' }])).find('10.9.9.9', null, '/', 0)?.id, 1)
  })

  test('a refusal goes before a pass before a rate, however near each is', async () => {
    const set = await setOf([
      { client: 'ip:203.0.113.7', effect: '5/m' },
      { client: 'ip:203.0.113.0/24', effect: 'allow' },
      { client: 'ip:203.0.0.0/16', effect: 'deny', pathPattern: '^/admin' },
    ])
    assert.equal(set.find('203.0.113.7', null, '/admin', 0)?.effect, 'deny')
    assert.equal(set.find('203.0.113.7', null, '/', 0)?.effect, 'allow')
    assert.equal(set.find('203.0.113.7', '1', '/', 0)?.id, 2)
  })

  test('of the same effect the nearest wins: user, address, longer prefix, then one with a path', async () => {
    const rates = [
      { client: 'ip:0.0.0.0/0', effect: '1/m' },
      { client: 'ip:203.0.113.0/24', effect: '2/m', pathPattern: '^/a' },
      { client: 'ip:203.0.113.7', effect: '3/m' },
      { client: 'ip:203.0.113.7', effect: '4/m', pathPattern: '^/a/' },
      { client: 'user:7', effect: '5/m' },
    ]
    const set = await setOf(rates)
    assert.equal(set.find('203.0.113.7', '7', '/a/', 0)?.id, 5)
    assert.equal(set.find('203.0.113.7', '8', '/a/', 0)?.id, 4)
    assert.equal(set.find('203.0.113.7', null, '/a', 0)?.id, 3)
    assert.equal(set.find('203.0.113.9', null, '/a', 0)?.id, 2)
    assert.equal(set.find('203.0.113.9', null, '/b', 0)?.id, 1)
  })

  test('of two that differ in nothing the older row wins', async () => {
    const set = await setOf([
      { client: 'ip:2001:db8::1', effect: '1/m' },
      { client: 'ip:2001:DB8:0::1', effect: '2/m' },
    ])
    assert.equal(set.find('2001:db8::1', null, '/', 0)?.id, 1)
  })

  test('holds until the moment of its expiry, and not a millisecond longer', async () => {
    const set = await setOf([
      { client: 'ip:203.0.113.7', expiresAt: 1_000 },
      { client: 'ip:203.0.113.0/24', effect: 'allow' },
    ])
    assert.equal(set.find('203.0.113.7', null, '/', 999)?.id, 1)
    assert.equal(set.find('203.0.113.7', null, '/', 1_000)?.id, 2)
  })

  test('patterns follow the router: case and the slash at the end', async () => {
    const rows = [{ client: 'user:7', pathPattern: '^/Admin/$' }]
    assert.equal((await setOf(rows)).find(null, '7', '/admin', 0), undefined)
    assert.equal((await setOf(rows)).find(null, '7', '/Admin/', 0)?.id, 1)
    const lenient = await setOf(rows, { caseSensitive: false, ignoreTrailingSlash: true })
    assert.equal(lenient.find(null, '7', '/admin', 0)?.id, 1)
    assert.equal(lenient.find(null, '7', '/admin/x', 0), undefined)
  })

  test('a changed row replaces what it was in the next set, and nothing in the one before', async () => {
    const before = await setOf([{ client: 'ip:10.0.0.0/8' }, { client: 'user:7' }])
    assert.equal(before.find('10.1.1.1', null, '/', 0)?.id, 1)
    const moved = await changed(before, overridesOf([{ client: 'ip:11.0.0.0/8' }]))
    const idsOf = (set: OverrideSet) => ['10.1.1.1', '11.1.1.1'].map((ip) => set.find(ip, null, '/', 0)?.id)
    assert.deepEqual(idsOf(moved), [undefined, 1])
    assert.deepEqual(idsOf(before), [1, undefined])
    const emptied = await changed(moved, [], [1, 2, 3])
    assert.deepEqual([emptied.size, emptied.hasUsers, ...idsOf(emptied)], [0, false, undefined, undefined])
    assert.deepEqual([moved.size, moved.hasUsers], [2, true])
    assert.equal(await changed(moved, []), moved)
  })

  test('returns the rates that concern a client, or a part of a network', async () => {
    const set = await setOf([
      { client: 'ip:2001:db8:1:2::5', effect: '1/m' },
      { client: 'ip:2001:db8::/32', effect: '2/m' },
      { client: 'ip:2001:db8:1:3::5', effect: '3/m' },
      { client: 'ip:2001:db8::/32', effect: 'deny', pathPattern: '^/' },
      { client: 'user:7', effect: '4/m' },
    ])
    const idsOf = (client: string) => set.ratesFor(overrideClient(client)).map(({ id }) => id)
    assert.deepEqual(idsOf('ip:2001:db8:1:2::/64'), [1, 2])
    assert.deepEqual(idsOf('user:7'), [5])
    assert.deepEqual(idsOf('ip:10.0.0.1'), [])
  })

  test('agrees with a scan of all overrides, whatever was changed before, a few rows at a time or thousands', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(generated, { maxLength: 30 }),
        fc.array(generated, { maxLength: 30 }),
        fc.array(request, { minLength: 1, maxLength: 20 }),
        fc.boolean(),
        async (rows, otherRows, requests, thousands) => {
          const agrees = (set: OverrideSet, overrides: readonly ActiveOverride[]) => {
            for (const { address, user, path } of requests) {
              assert.deepEqual(set.find(address, user, path, 0), naive(overrides, address, user, path))
            }
            const ids = [...set.all()].map(({ id }) => id).filter((id) => id < FIRST_UNASKED)
            assert.deepEqual(new Set(ids), new Set(overrides.map(({ id }) => id)))
            assert.equal(
              set.hasUsers,
              overrides.some(({ client }) => client.kind === 'user'),
            )
          }
          const all = overridesOf(rows)
          const base = await setOf(rows)
          agrees(base, all)
          const set = thousands ? await changed(base, UNASKED) : base
          const kept = all.filter(({ id }) => id % 3 !== 0)
          const removed = all.map(({ id }) => id).filter((id) => id % 3 === 0)
          const fewer = await changed(set, [], removed)
          agrees(fewer, kept)
          const edited = overridesOf(otherRows)
          const byId = new Map([...kept, ...edited].map((override) => [override.id, override]))
          agrees(await changed(fewer, edited), [...byId.values()])
          agrees(base, all)
        },
      ),
      { numRuns: 200 },
    )
  })
})

function overrideClient(client: string) {
  return parseOverride({ client, effect: 'deny', algorithm: 'fixed_window', pathPattern: '', expiresAt: null }).client
}

const FIRST_UNASKED = 1_000
/** So many that a set is built anew; none of them is for a client that is asked about. */
const UNASKED = Array.from({ length: 1_100 }, (_, place) => ({
  id: FIRST_UNASKED + place,
  ...parseOverride({
    client: `ip:250.0.${place >> 8}.${place & 255}`,
    effect: 'deny',
    algorithm: 'fixed_window',
    pathPattern: '',
    expiresAt: null,
  }),
}))

// Few different values, so that networks contain each other and addresses meet them.
const octet = fc.constantFrom(0, 1, 10, 127, 128, 255)
const ipv4 = fc.tuple(octet, octet, octet, octet).map((octets) => octets.join('.'))
const ipv6 = fc
  .array(fc.constantFrom(0, 1, 0x2001, 0x7fff, 0x8000, 0xffff), { minLength: 8, maxLength: 8 })
  .map((groups) => new ipaddr.IPv6(groups))
  .filter((ip) => !ip.isIPv4MappedAddress())
  .map((ip) => ip.toString())
const network4 = fc.tuple(ipv4, fc.integer({ min: 0, max: 32 })).map(([ip, bits]) => {
  return `ip:${ipaddr.IPv4.networkAddressFromCIDR(`${ip}/${bits}`)}/${bits}`
})
const network6 = fc.tuple(ipv6, fc.integer({ min: 0, max: 128 })).map(([ip, bits]) => {
  const first = ipaddr.IPv6.networkAddressFromCIDR(`${ip}/${bits}`)
  return `ip:${first}/${bits}`
})
const user = fc.constantFrom('1', '2', 'alice')
const generated = fc.record({
  client: fc.oneof(
    network4,
    network6,
    ipv4.map((ip) => `ip:${ip}`),
    user.map((id) => `user:${id}`),
  ),
  effect: fc.constantFrom('deny', 'allow', '5/m'),
  pathPattern: fc.constantFrom('', '', '^/a', 'b$'),
})
const request = fc.record({
  address: fc.oneof(ipv4, ipv6, fc.constant(null)),
  user: fc.option(user),
  path: fc.constantFrom('/', '/a', '/a/b'),
})
