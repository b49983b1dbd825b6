import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEFAULT_LISTING, type ListedClient } from '../../../src/reports/dashboard-clients.js'
import { type Cause, clientCauses, leadSentence } from '../../../src/staff/dashboard/lead.js'
import type { View } from '../../../src/staff/dashboard/links.js'

interface Said {
  readonly counts?: Partial<Parameters<typeof leadSentence>[0]>
  readonly clients?: readonly Cause[]
  readonly rules?: readonly Cause[]
  readonly isFiltered?: boolean
  readonly onlyBlocked?: boolean
}

function say({ counts, clients = [], rules = [], isFiltered = false, onlyBlocked = false }: Said): string | undefined {
  const lead = leadSentence(
    { requests: 1_000, blocked: 0, would_block: 0, denied: 0, ...counts },
    { clients, rules, window: 'last 24 hours', isFiltered, onlyBlocked },
  )
  return lead && lead.before + lead.name + lead.text
}

const network = { name: '203.0.113.0/24', refused: 82 }
const rule = { before: 'Rule ', name: 'search', refused: 60 }

test('who causes the most refusals leads, with the share', () => {
  const counts = { blocked: 99 }
  const clients = [{ name: 'user:7', refused: 9 }, network]
  assert.equal(
    say({ counts, clients, rules: [rule] }),
    '203.0.113.0/24 causes 82% of the refusals in the last 24 hours.',
  )
  const several = { ...network, before: '12 clients of ', isPlural: true }
  assert.equal(
    say({ counts, clients: [several] }),
    '12 clients of 203.0.113.0/24 cause 82% of the refusals in the last 24 hours.',
  )
})

test('of a client that is denied the sentence says so, and until when', () => {
  const denied = { ...network, denied: 'Denied until 2026-01-15 14:00:00 UTC' }
  assert.equal(
    say({ counts: { blocked: 100 }, clients: [denied] }),
    '203.0.113.0/24 caused 82% of the refusals in the last 24 hours; it is denied until 2026-01-15 14:00:00 UTC.',
  )
})

test('a share is rounded down, so that only all is all', () => {
  assert.equal(
    say({ counts: { blocked: 1_000 }, clients: [{ name: 'user:7', refused: 999 }] }),
    'user:7 causes 99% of the refusals in the last 24 hours.',
  )
  // The incidents are read a moment after the sums.
  for (const refused of [1_000, 1_001]) {
    assert.equal(
      say({ counts: { blocked: 1_000 }, clients: [{ name: 'user:7', refused }] }),
      'user:7 causes all of the refusals in the last 24 hours.',
    )
  }
})

test('where no client stands out a rule leads, and where none does the sum', () => {
  const counts = { blocked: 99 }
  const clients = [{ name: 'user:7', refused: 24 }]
  assert.equal(say({ counts, clients, rules: [rule] }), 'Rule search causes 60% of the refusals in the last 24 hours.')
  const small = { ...rule, refused: 24 }
  assert.equal(say({ counts, clients, rules: [small] }), '99 of 1,000 requests were refused in the last 24 hours.')
  assert.equal(
    say({ counts: { blocked: 1 }, isFiltered: true }),
    '1 of 1,000 requests that match the filter was refused in the last 24 hours.',
  )
})

test('a filter is part of what is said', () => {
  assert.equal(
    say({ counts: { blocked: 100 }, clients: [network], isFiltered: true }),
    '203.0.113.0/24 causes 82% of the refusals that match the filter in the last 24 hours.',
  )
  assert.equal(say({ isFiltered: true }), 'No request that matches the filter was refused in the last 24 hours.')
})

test('where nothing was refused the sentence is calm, and leaves out nothing', () => {
  assert.equal(say({}), 'No request was refused in the last 24 hours.')
  assert.equal(say({ counts: { denied: 1 } }), 'No request was refused in the last 24 hours; 1 was denied.')
  assert.equal(
    say({ counts: { would_block: 1_200, denied: 30 } }),
    'No request was refused in the last 24 hours; 1,200 would have been, 30 were denied.',
  )
})

test('without requests there is no sentence, and of refusals alone none with all requests', () => {
  assert.equal(say({ counts: { requests: 0 } }), undefined)
  assert.equal(
    say({ counts: { requests: 99, blocked: 99 }, onlyBlocked: true }),
    '99 requests were refused in the last 24 hours.',
  )
})

const VIEW: View = { window: { days: 1 }, filter: {}, listing: DEFAULT_LISTING, live: 'on' }

function listed(client: string, over_limit: number, denied = 0): ListedClient {
  const counts = { requests: over_limit + denied, over_limit, would_be: 0, denied }
  return { client, ...counts, policies: [], paths: [], request: null, bar_ms: 60_000, bars: [] }
}

function causes(top_clients: readonly ListedClient[], ongoing: Parameters<typeof clientCauses>[2] = []) {
  const found = clientCauses({ top_clients, top_networks: [], by: 'refused' }, VIEW, ongoing)
  return found.map(({ before = '', name, refused, denied }) => [before + name, refused, denied])
}

test('of a network only the clients that were refused are counted, and a single one is named', () => {
  const denied = listed('ip:203.0.113.9', 0, 50)
  const [one, other] = [listed('ip:203.0.113.7', 20), listed('ip:203.0.113.8', 10)]
  assert.deepEqual(causes([denied, one, other]), [['2 clients of 203.0.113.0/24', 30, undefined]])
  const another = listed('ip:203.0.113.8', 0, 3)
  assert.deepEqual(causes([denied, one, another]), [['ip:203.0.113.7', 20, undefined]])
})

test('an address in the network of an incident that goes on stands for the network', () => {
  const clients = [listed('ip:203.0.113.7', 20), listed('ip:203.0.113.8', 10), listed('ip:192.0.2.1', 5)]
  const incident = { name: '203.0.113.0/24', refused: 12, fromMs: 0, denied: 'Denied until 14:00' }
  assert.deepEqual(causes(clients, [incident]), [
    ['203.0.113.0/24', 30, 'Denied until 14:00'],
    ['203.0.113.0/24', 30, 'Denied until 14:00'],
    ['ip:192.0.2.1', 5, undefined],
  ])
  assert.deepEqual(causes(clients)[0], ['ip:203.0.113.7', 20, undefined])
})
