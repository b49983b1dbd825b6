/** Whatever a client or a host spells, no two counters have one name. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { addressKey, type ClientKey, compositeKey, inScope, ruleKey } from '../../src/clients/client-key.js'
import type { KeyPart } from '../../src/clients/client-kind.js'
import { spellPart } from '../../src/clients/composite.js'
import { counterKey } from '../../src/ground/storable.js'
import { CounterScopes, overrideScope, routeScope } from '../../src/http/counter-scopes.js'
import { KEYS } from '../support/client-keys.js'

const RUNS = 5_000
const LONG = 'x'.repeat(200)
const HASH = createHash('sha256').update(LONG, 'utf16le').digest('hex')
/** What names are made of, and what they look like. */
const PIECES = [
  ...'| : \\ # / a 7 ~ { } \0 \u{1f600} \ud800 \udfff \ufffd'.split(' '),
  ...'ip: user: header: cookie: pattern: parts: key: rule: rule:a: per:60000 per:60000| route: route:| override:1 override:1|'.split(
    ' ',
  ),
  ...['GET /a', 'GET /a|', '/a', '/a|', '203.0.113.7', '2001:db8::/64', 'shop|', 'app.one|'],
  ...[LONG, `${LONG}y`, HASH, `#${HASH}`, ...[60, 63, 190].map((length) => `${LONG.slice(0, length)}#${HASH}`)],
]
const KINDS = {
  ...KEYS,
  headerAndUser: (value: string) => composed(HEADER, value, USER, null),
  userAndHeader: (value: string) => composed(USER, value, HEADER, 'a'),
} as const
const KIND_NAMES = ['user:', 'header:x-a:', 'cookie:sid:', 'route:', 'headerAndUser', 'userAndHeader', 'key:'] as const
const HEADER: KeyPart = { kind: 'header', name: 'x-a' }
const USER: KeyPart = { kind: 'user' }

function composed(one: KeyPart, value: string, other: KeyPart, otherValue: string | null): ClientKey {
  return compositeKey(`${spellPart(one, value)}|${spellPart(other, otherValue)}|ip:203.0.113.7`, [one, other])
}

/** What a counter is for, in a form that is one counter's alone, and the names that the package gives it. */
interface Counted {
  readonly of: string
  readonly key: ClientKey
}

const known = new CounterScopes()

function spelled(kind: keyof typeof KINDS, value: string): Counted {
  return { of: JSON.stringify([kind, value]), key: KINDS[kind](value) }
}

function ofAddress(key: string): Counted {
  return { of: JSON.stringify(['ip', key]), key: addressKey(key) }
}

function scoped(scope: string, parts: readonly (string | number)[], { of, key }: Counted): Counted {
  return { of: `${JSON.stringify(parts)} ${of}`, key: inScope(scope, key) }
}

function ofPrefix(prefix: string, client: Counted): Counted {
  return scoped(known.addPrefix(prefix), ['prefix', prefix], client)
}

function ofPeriod(periodMs: number, client: Counted): Counted {
  return scoped(known.addPeriods({ limit: 1, periodMs }), ['period', periodMs], client)
}

function ofRoute(periodMs: number, name: string, url: string, client: Counted): Counted {
  const scope = `${known.addPeriods({ limit: 1, periodMs })}|${routeScope(name, { method: 'GET', url })}`
  // `/a/` is one route with `/a`.
  return scoped(scope, ['route', periodMs, name, url.replace(/(?<=.)\/$/, '')], client)
}

function ofRule(name: string, { of, key }: Counted): Counted {
  return { of: `${JSON.stringify(['rule', name])} ${of}`, key: ruleKey(name, key) }
}

const spellings = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(''))
const addresses = fc.constantFrom('203.0.113.7', '2001:db8::/64', 'unknown').map(ofAddress)
const values = fc.tuple(fc.constantFrom(...KIND_NAMES), spellings).map(([kind, value]) => spelled(kind, value))
const clients = fc.oneof({ weight: 1, arbitrary: addresses }, { weight: 4, arbitrary: values })
const periods = fc.constantFrom(60_000, 3_600_000)
const limitNames = fc.oneof(fc.constant(''), spellings)
const ruleNames = spellings.map((text) => text.replace(/[^\x20-\x39\x3b-\x7e]/g, '').slice(0, 100) || 'a')
const counters = fc.oneof(
  clients,
  fc.tuple(spellings, clients).map(([text, client]) => ofPrefix(`/${text}`, client)),
  fc.tuple(periods, clients).map(([periodMs, client]) => ofPeriod(periodMs, client)),
  fc.tuple(periods, limitNames, spellings, clients).map((given) => ofRoute(...given)),
  fc.tuple(fc.nat(12), clients).map(([id, client]) => scoped(overrideScope(id), ['override', id], client)),
  fc.tuple(ruleNames, addresses).map(([name, client]) => ofRule(name, client)),
  fc
    .tuple(ruleNames, fc.constantFrom(...KIND_NAMES), spellings)
    .map(([name, kind, value]) => ofRule(name, spelled(kind, value))),
)

const ROUTE_READINGS = [/^per:(\d+)\|route:(.*?)[:|]GET (.*)$/s, /^per:(\d+)\|route:(.*)[:|]GET (.*)$/s]

/** Clients, prefixes and routes that spell a name, from each place on where a part of it may begin or end. */
function* lookAlikesOf(name: string): Iterable<Counted> {
  for (const { index } of name.matchAll(/(?<=^|[|:])(?=.)/gs)) {
    for (const kind of KIND_NAMES) yield spelled(kind, name.slice(index))
  }
  for (const { index } of name.matchAll(/\|header:(?=.)/g)) {
    const scope = name.slice(0, index)
    const client = spelled('header:x-a:', name.slice(index + '|header:'.length))
    if (scope.startsWith('/')) yield ofPrefix(scope, client)
    for (const reading of ROUTE_READINGS) {
      const [, periodMs, limitName = '', url = ''] = reading.exec(scope) ?? []
      if (periodMs !== undefined) yield ofRoute(Number(periodMs), limitName, url, client)
    }
  }
}

test('no client, scope or namespace spells the name of the counter of another one', (t) => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  const seen = new Map<string, string>()
  function proveApart(name: string, of: string): void {
    assert.equal(seen.get(name) ?? of, of, name)
    seen.set(name, of)
  }
  const namespaces = fc.constantFrom('', 'shop|', 'app.one|')
  const property = fc.property(namespaces, counters, (namespace, { of, key: { counter } }) => {
    for (const name of new Set([counter, namespace + counter])) {
      proveApart(counterKey(name), name === counter ? of : `${namespace} ${of}`)
      for (const lookAlike of lookAlikesOf(name)) proveApart(counterKey(lookAlike.key.counter), lookAlike.of)
    }
  })
  fc.assert(property, { seed, numRuns: RUNS, endOnFailure: true })
})
