/** How a client is written, and read again. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type ClientPart,
  clientsForKey,
  createClient,
  EVERYBODY,
  formatKey,
  formatPart,
  isByAddress,
  isComposite,
  parseClient,
  parseComposite,
  parseParts,
} from '../../src/clients/client.js'
import { type ClientKind, parseClientKind } from '../../src/clients/client-kind.js'
import { formatCounter } from '../../src/clients/counter.js'
import { fc } from '../support/properties.js'

const values = fc
  .array(fc.constantFrom(...'| \\ - : a 7 ip: user: header:x-a: |ip: \\| \0 \ud800'.split(' '), 'x'.repeat(8_000)), {
    minLength: 1,
    maxLength: 4,
  })
  .map((pieces) => pieces.join(''))

const maybe = fc.oneof(values, fc.constant(null))

function one(name: string, value: string) {
  return createClient({ name, value })
}

describe('a client of one kind', () => {
  const CLIENTS = [
    ['ip', '203.0.113.7', 'ip:203.0.113.7', 'ip:203.0.113.7', 'rule:api:203.0.113.7'],
    ['user', '7', 'user:7', 'user:7', 'rule:api:user:7'],
    ['user.org', 'user:7', 'user.org:user:7', 'user.org:user:7', 'rule:api:user:7'],
    ['user.org', 'a|b\\', 'user.org:a|b\\', 'user.org:a|b\\', 'rule:api:a|b\\'],
    ['header:x-api-key', 'a|b\\', 'header:x-api-key:a|b\\', 'header:a|b\\', 'rule:api:a|b\\'],
    ['cookie:sid', '-', 'cookie:sid:-', 'cookie:-', 'rule:api:-'],
    ['route', '/items/:id', 'route:/items/:id', 'route:/items/:id', 'rule:api:/items/:id'],
    ['key', 'team:a', 'key:team:a', 'team:a', 'rule:api:team:a'],
  ] as const
  for (const [name, value, text, key, ofRule] of CLIENTS) {
    test(`is written as ${text}, and read again`, () => {
      const client = one(name, value)
      assert.deepEqual([client.text, formatKey(client), formatKey(client, 'api')], [text, key, ofRule])
      assert.deepEqual(parseClient(text), client)
      assert.deepEqual(parseParts(formatPart({ name, value })), client)
      if (name === 'key') return
      const kind = parseClientKind(name)
      for (const each of [key, ofRule]) {
        const texts = clientsForKey(each, kind).map((found) => found.text)
        assert.ok(texts.includes(text), `${each}: ${texts}`)
      }
    })
  }

  test('that all requests are is written as all', () => {
    assert.deepEqual([formatKey(EVERYBODY), formatKey(EVERYBODY, 'api')], ['all', 'rule:api:all'])
    assert.equal(parseClient('all'), EVERYBODY)
    assert.deepEqual(clientsForKey('rule:api:all', { kind: 'all' }), [EVERYBODY])
    assert.deepEqual(clientsForKey('rule:api:7', { kind: 'all' }), [])
  })

  test('is undefined for a text without a kind', () => {
    for (const text of ['', '7', 'header:7', 'ip', 'all|ip:203.0.113.7'])
      assert.equal(parseClient(text), undefined, text)
  })
})

describe('a client of several kinds', () => {
  const KIND = parseClientKind('user+route+ip')
  const CLIENT = createClient(
    { name: 'user', value: '7' },
    { name: 'route', value: '/a|b' },
    { name: 'ip', value: '203.0.113.7' },
  )

  test('is written with its kinds, and without them in keys', () => {
    assert.equal(CLIENT.text, 'user:7|route:/a\\|b|ip:203.0.113.7')
    assert.deepEqual([formatKey(CLIENT), isByAddress(CLIENT)], ['user:7|/a\\|b|203.0.113.7', true])
    for (const key of [formatKey(CLIENT), formatKey(CLIENT, 'api')])
      assert.deepEqual(clientsForKey(key, KIND), [CLIENT])
    assert.deepEqual(clientsForKey('user:7|/a', KIND), [])
  })

  test('has escapes for bars, backslashes and a value that is just a hyphen', () => {
    for (const [value, spelled] of [
      ['a|b', 'a\\|b'],
      ['a\\', 'a\\\\'],
      ['-', '\\-'],
      ['--', '--'],
      [null, '-'],
    ] as const) {
      const client = createClient({ name: 'header:x-a', value }, { name: 'ip', value: '203.0.113.7' })
      assert.equal(client.text, `header:x-a:${spelled}|ip:203.0.113.7`)
      assert.equal(formatKey(client), `${spelled}|203.0.113.7`)
      assert.deepEqual(parseComposite(client.text), client)
    }
  })

  test('is known by its key from the value of a header that spells it', () => {
    const value = '1|ip:203.0.113.7'
    const alone = one('header:x-a', value)
    const both = createClient({ name: 'header:x-a', value: '1' }, { name: 'ip', value: '203.0.113.7' })
    assert.equal(alone.text, both.text)
    for (const rule of [undefined, 'api']) {
      assert.equal(isComposite({ client: both.text, key: formatKey(both, rule) }), true)
    }
    assert.equal(isComposite({ client: alone.text, key: formatKey(alone, 'api') }), false)
    assert.deepEqual(parseClient(alone.text, false), alone)
    assert.notEqual(formatCounter('rule:api', alone), formatCounter('rule:api', both))
  })

  test('never meets the counter of other parts, whatever their values spell', () => {
    const seen = new Map<string, string>()
    const kinds: readonly string[] = ['user', 'header:x-a', 'header:x-b', 'cookie:x-a', 'route']
    const spelled = fc
      .shuffledSubarray([...kinds], { minLength: 2, maxLength: 3 })
      .chain((names) =>
        fc.tuple(...names.map((name) => fc.record<ClientPart>({ name: fc.constant(name), value: maybe }))),
      )
    fc.assert(
      fc.property(spelled, (made) => {
        // Objects of fast-check have no prototype.
        const parts = made.map((part) => ({ ...part }))
        const client = createClient(...parts)
        const counter = formatCounter('default', client)
        const of = JSON.stringify(parts)
        assert.equal(seen.get(counter) ?? of, of)
        seen.set(counter, of)
        // A value of 128 characters has twice as many where all are escaped.
        assert.ok(counter.length <= 'default'.length + parts.length * (256 + 'header:x-a:|'.length))
        const kind: ClientKind = parseClientKind(parts.map(({ name }) => name).join('+'))
        assert.deepEqual(clientsForKey(formatKey(client), kind), [client])
        assert.deepEqual(parseComposite(client.text), client)
      }),
      { numRuns: 2_000 },
    )
  })
})
