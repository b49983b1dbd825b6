import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { compositeKey } from '../../src/clients/client-key.js'
import { countsBy, type KeyPart, parseClientKind } from '../../src/clients/client-kind.js'
import { compositeFromKey, compositeInKey, readComposite, spellPart } from '../../src/clients/composite.js'

const WRONG: readonly (readonly [key: unknown, message: RegExp])[] = [
  ['', /"" is no key: give ip, user or header/],
  ['ip+', /"" is no key/],
  ['+ip', /"" is no key/],
  ['ip + user', /"ip " is no key/],
  ['IP', /"IP" is no key/],
  ['ip,user', /"ip,user" is no key/],
  ['all+ip', /has "all" beside other kinds: give all alone/],
  ['ip+all', /has "all" beside other kinds/],
  ['ip+ip', /has "ip" twice/],
  ['header:X-A+ip+header:x-a', /has "header:x-a" twice/],
  ['ip+user+route+cookie:a', /has 4 kinds: give at most 3/],
  ['header:X|Y', /"header:X\|Y" is no key.*no \+ and no \|/],
  ['header:X+Y', /"Y" is no key.*no \+ and no \|/],
  ['cookie:a|b', /"cookie:a\|b" is no key/],
  ['cookie:', /"cookie:" is no key/],
  ['cookie:a b', /"cookie:a b" is no key/],
  ['ip+header:__proto__', /Node\.js does not keep/],
  [`header:${'a'.repeat(101)}`, /is no key/],
  [['header', 'header', 'cookie'].map((kind, place) => `${kind}:${'abc'[place]?.repeat(90)}`).join('+'), /at most 255/],
  [7, /must be a text/],
]

describe('what requests are counted by', () => {
  for (const [key, message] of WRONG) {
    test(`${JSON.stringify(key).slice(0, 60)} is refused`, () => assert.throws(() => parseClientKind(key), message))
  }

  test('is a kind, up to three of them in their order, or all', () => {
    assert.deepEqual(parseClientKind('route'), { kind: 'route' })
    assert.deepEqual(parseClientKind('all'), { kind: 'all' })
    assert.deepEqual(parseClientKind('cookie:Sid'), { kind: 'cookie', name: 'Sid' })
    assert.deepEqual(parseClientKind('user+header:X-A+header:x-b'), {
      kind: 'composite',
      parts: [{ kind: 'user' }, { kind: 'header', name: 'x-a' }, { kind: 'header', name: 'x-b' }],
    })
    // A cookie's name has upper and lower case.
    assert.equal(countsBy(parseClientKind('cookie:a+cookie:A'), 'cookie'), true)
    assert.equal(countsBy(parseClientKind('ip+route'), 'user'), false)
  })
})

const USER: KeyPart = { kind: 'user' }
const ADDRESS: KeyPart = { kind: 'ip' }
const ROUTE: KeyPart = { kind: 'route' }
const PARTS: readonly KeyPart[] = [
  USER,
  { kind: 'header', name: 'x-a' },
  { kind: 'header', name: 'x-b' },
  { kind: 'cookie', name: 'x-a' },
  ROUTE,
]
const values = fc
  .array(fc.constantFrom(...'| \\ - : a 7 ip: user: header:x-a: |ip: \\| \0 \ud800'.split(' '), 'x'.repeat(8_000)), {
    minLength: 1,
    maxLength: 4,
  })
  .map((pieces) => pieces.join(''))

const maybe = fc.oneof(values, fc.constant(null))

describe('a client of several kinds', () => {
  test('is spelled with its kinds, and without them in keys', () => {
    const parts = [USER, ROUTE, ADDRESS]
    const client = [spellPart(USER, '7'), spellPart(ROUTE, '/a|b'), spellPart(ADDRESS, '203.0.113.7')].join('|')
    assert.equal(client, 'user:7|route:/a\\|b|ip:203.0.113.7')
    const key = compositeKey(client, parts)
    assert.deepEqual([key.name, key.client, key.byAddress], ['user:7|/a\\|b|203.0.113.7', client, true])
    assert.equal(compositeFromKey(key.name, parts), client)
  })

  test('has escapes for bars, backslashes and a value that is just a hyphen', () => {
    const header: KeyPart = { kind: 'header', name: 'x-a' }
    for (const [value, spelled] of [
      ['a|b', 'a\\|b'],
      ['a\\', 'a\\\\'],
      ['-', '\\-'],
      ['--', '--'],
      [null, '-'],
    ] as const) {
      const client: string = `${spellPart(header, value)}|ip:203.0.113.7`
      assert.equal(client, `header:x-a:${spelled}|ip:203.0.113.7`)
      assert.equal(compositeInKey(client, [header, ADDRESS]), `${spelled}|203.0.113.7`)
      assert.equal(readComposite(client)?.get('header:x-a'), value)
    }
  })

  test('never meets the counter of other parts, whatever their values spell', () => {
    const seen = new Map<string, string>()
    const given = fc
      .shuffledSubarray([...PARTS], { minLength: 2, maxLength: 3 })
      .chain((parts) => fc.tuple(...parts.map((part) => fc.record({ part: fc.constant(part), value: maybe }))))
    fc.assert(
      fc.property(given, (spelled) => {
        const client = spelled.map(({ part, value }) => spellPart(part, value)).join('|')
        const parts = spelled.map(({ part }) => part)
        const { counter, name } = compositeKey(client, parts)
        const of = JSON.stringify(spelled)
        assert.equal(seen.get(counter) ?? of, of)
        seen.set(counter, of)
        assert.ok(counter.length <= 140)
        assert.equal(compositeFromKey(name, parts), client)
        const read = readComposite(client)
        for (const { part, value } of spelled) {
          assert.equal(read?.get('name' in part ? `${part.kind}:${part.name}` : part.kind), value)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
