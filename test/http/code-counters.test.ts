/** Whatever a client or a host spells, no two counters have one name. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { addressClient, type Client, createClient } from '../../src/clients/client.js'
import {
  CEILING_LIMIT,
  DEFAULT_LIMIT,
  defaultLimitName,
  formatCountedPart,
  formatCounter,
  overrideLimitName,
  parseCounter,
  refusalsLimitName,
  routeLimitName,
  ruleLimitName,
  sharedLimitName,
  staffCounter,
} from '../../src/clients/counter.js'
import { counterKey } from '../../src/ground/storable.js'
import { CodeCounters, routeName } from '../../src/http/code-counters.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'

const RUNS = 5_000
const LONG = 'x'.repeat(200)
const HASH = createHash('sha256').update(LONG, 'utf16le').digest('hex')
/** What names are made of, and what they look like. */
const PIECES = [
  ...'| : \\ # / a 7 ~ - { } \0 \u{1f600} \ud800 \udfff \ufffd'.split(' '),
  ...'ip: user: header:x-a: cookie:sid: route: key: all rule: rule:a| refusals:a| default| default:60000|'.split(' '),
  ...'limit:60000: limit:60000::GET limit:60000:a: shared:60000: override:1 override:1| ceiling| staff-token|'.split(
    ' ',
  ),
  ...['GET /a', 'GET /a|', ':GET /a', '/a', '/a|', '203.0.113.7', '2001:db8::/64', 'shop|', 'app.one|'],
  ...[LONG, `${LONG}y`, HASH],
  ...'#~'.split('').flatMap((mark) => ['', 60, 63, 190].map((length) => `${LONG.slice(0, +length)}${mark}${HASH}`)),
]
const NAMES = ['user', 'header:x-a', 'cookie:sid', 'route', 'key'] as const

/** What a counter is for, in a form that is one counter's alone, and the name that the package gives it. */
interface Counted {
  readonly of: string
  readonly counter: string
  readonly client: Client
}

const codeCounters = new CodeCounters()

function ofLimit(limit: string, of: readonly (string | number)[], client: Client): Counted {
  return { of: JSON.stringify([of, client.parts]), counter: formatCounter(limit, client), client }
}

function ofDefault(client: Client): Counted {
  return ofLimit(DEFAULT_LIMIT, ['default'], client)
}

function ofPrefix(prefix: string, client: Client): Counted {
  return ofLimit(codeCounters.addPrefix(prefix), ['prefix', prefix], client)
}

function ofPeriods(periodMs: number, client: Client): Counted {
  return ofLimit(defaultLimitName(codeCounters.addPeriods({ limit: 1, periodMs })), ['periods', periodMs], client)
}

function ofRoute(periodMs: number, name: string, url: string, client: Client): Counted {
  const periods = codeCounters.addPeriods({ limit: 1, periodMs })
  // `/a/` is one route with `/a`.
  const of = ['route', periodMs, name, url.replace(/(?<=.)\/$/, '')]
  return ofLimit(routeLimitName(periods, name, routeName({ method: 'GET', url })), of, client)
}

function ofShared(periodMs: number, name: string, client: Client): Counted {
  const periods = codeCounters.addPeriods({ limit: 1, periodMs })
  return ofLimit(sharedLimitName(periods, name), ['shared', periodMs, name], client)
}

function ofRule(name: string, client: Client): Counted {
  return ofLimit(ruleLimitName(name), ['rule', name], client)
}

const spellings = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(''))
const addresses = fc.constantFrom('203.0.113.7', '2001:db8::/64', 'unknown')
const parts = fc.record(
  {
    name: fc.constantFrom(...NAMES),
    value: fc.oneof({ weight: 9, arbitrary: spellings }, { arbitrary: fc.constant(null), weight: 1 }),
  },
  { noNullPrototype: true },
)
const clients = fc.oneof(
  { weight: 1, arbitrary: addresses.map(addressClient) },
  { weight: 1, arbitrary: fc.constant(createClient()) },
  {
    weight: 4,
    arbitrary: fc.tuple(fc.constantFrom(...NAMES), spellings).map(([name, value]) => createClient({ name, value })),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.uniqueArray(parts, { minLength: 1, maxLength: 3, selector: ({ name }) => name }), addresses)
      .map(([some, value]) => createClient(...some, { name: 'ip', value })),
  },
)
const periods = fc.constantFrom(60_000, 3_600_000)
const limitNames = fc.oneof(fc.constant(''), spellings)
const ruleNames = spellings.map((text) => text.replace(/[^\x20-\x39\x3b-\x7e]/g, '').slice(0, 100) || 'a')
const counters = fc.oneof(
  clients.map(ofDefault),
  fc.tuple(spellings, clients).map(([text, client]) => ofPrefix(`/${text}`, client)),
  fc.tuple(periods, clients).map((input) => ofPeriods(...input)),
  fc.tuple(periods, limitNames, spellings, clients).map((input) => ofRoute(...input)),
  fc.tuple(periods, limitNames, clients).map((input) => ofShared(...input)),
  fc.tuple(fc.nat(12), clients).map(([id, client]) => ofLimit(overrideLimitName(id), ['override', id], client)),
  clients.map((client) => ofLimit(CEILING_LIMIT, ['ceiling'], client)),
  fc.tuple(ruleNames, clients).map((input) => ofRule(...input)),
  fc.tuple(ruleNames, clients).map(([name, client]) => ofLimit(refusalsLimitName(name), ['refusals', name], client)),
  clients.map((client) => ({
    of: JSON.stringify(['staff', client.parts]),
    counter: staffCounter('token', client),
    client,
  })),
)

/** Clients, prefixes and routes that spell a name, from each place on where a part of it may begin or end. */
function* lookAlikesOf(name: string, { counter, client: same }: Counted): Iterable<Counted> {
  for (const { index } of name.matchAll(/(?<=^|[|:])(?=.)/gs)) {
    const [before, rest] = [name.slice(0, index), name.slice(index)]
    const client = createClient({ name: 'key', value: rest })
    for (const kind of NAMES) yield ofDefault(createClient({ name: kind, value: rest }))
    yield ofPrefix(`/${before}`, client)
    yield ofRoute(60_000, before, rest, client)
    yield ofShared(60_000, before, client)
    const ruleName = before.replaceAll(':', '')
    if (ruleName !== '') yield ofRule(ruleName, client)
  }
  const [, periodMs, route] = /^limit:(\d+):(.*)$/s.exec(counter.slice(0, -formatCounter('', same).length)) ?? []
  for (const { index } of route?.matchAll(/:GET /g) ?? []) {
    yield ofRoute(Number(periodMs), route?.slice(0, index) ?? '', route?.slice(index + ':GET '.length) ?? '', same)
  }
}

test('no client, limit or namespace spells the name of the counter of another one', long(), (t) => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  const seen = new Map<string, string>()
  function proveApart(name: string, of: string): void {
    assert.equal(seen.get(name) ?? of, of, name)
    seen.set(name, of)
  }
  const namespaces = fc.constantFrom('', 'shop|', 'app.one|', 'default|', 'ceiling|')
  const property = fc.property(namespaces, counters, (namespace, counted) => {
    const { of, counter } = counted
    for (const name of new Set([counter, namespace + counter])) {
      proveApart(counterKey(name), name === counter ? of : `${namespace} ${of}`)
      for (const lookAlike of lookAlikesOf(name, counted)) proveApart(counterKey(lookAlike.counter), lookAlike.of)
    }
  })
  fc.assert(property, { seed, numRuns: RUNS, endOnFailure: true })
})

test('the client of a counter is read again, whatever its limit and its namespace spell', () => {
  const property = fc.property(fc.constantFrom('', 'shop|', 'default|'), counters, (namespace, { of, counter }) => {
    const read = parseCounter(namespace + counter)
    const [, made] = JSON.parse(of)
    assert.equal(read?.parts.length, Math.max(1, made.length))
    assert.equal(read.before + read.parts.join('|'), namespace + counter)
    for (const [index, part] of made.entries()) {
      assert.equal(read.parts[index], formatCountedPart(part))
    }
  })
  fc.assert(property, { numRuns: RUNS })
})
