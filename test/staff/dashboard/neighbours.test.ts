import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ListedClient } from '../../../src/reports/dashboard-clients.js'
import type { LatestRequest } from '../../../src/reports/latest-requests.js'
import { groupNeighbours } from '../../../src/staff/dashboard/neighbours.js'

const REQUEST: LatestRequest = { id: 1, method: 'GET', path: '/', at_ms: 0, allowed: false }

function listed(
  client: string,
  over_limit: number,
  paths: readonly string[] = ['/'],
  seen: Partial<LatestRequest> = {},
): ListedClient {
  const [path = '/'] = paths
  const counts = { requests: 10 * over_limit, over_limit, would_be: 1, denied: 0 }
  const bars = [{ start_ms: 0, over_limit, denied: 1 }]
  return {
    client,
    ...counts,
    policies: [{ policy: 'login', ...counts }],
    paths,
    request: { ...REQUEST, path, ...seen },
    bar_ms: 60_000,
    bars,
  }
}

test('three clients of one network are one row, which goes before a client that was refused more than each', () => {
  const rows = groupNeighbours(
    [
      listed('user:1007', 50),
      listed('ip:203.0.113.10', 20, ['/a', '/b'], { at_ms: 9, allowed: true }),
      listed('ip:203.0.113.11', 20, ['/b', '/c', '/d'], { id: 2, at_ms: 5 }),
      listed('ip:203.0.113.12', 20),
    ],
    'refused',
  )

  assert.deepEqual(
    rows.map(({ name, over_limit, requests, members }) => [name, over_limit, requests, members.length]),
    [
      ['ip:203.0.113.0/24', 60, 600, 3],
      ['user:1007', 50, 500, 0],
    ],
  )
  assert.deepEqual(rows[0]?.bars, [{ start_ms: 0, over_limit: 60, denied: 3 }])
  assert.deepEqual(rows[0]?.paths, ['/a', '/b', '/c'])
  // The newest refusal of all, not the newest request.
  assert.deepEqual(rows[0]?.why, { ...REQUEST, client: 'ip:203.0.113.11', path: '/b', id: 2, at_ms: 5 })
  assert.deepEqual(rows[1]?.why, { ...REQUEST, client: 'user:1007' })
  assert.deepEqual(rows[0]?.policies, [{ policy: 'login', requests: 600, over_limit: 60, would_be: 3, denied: 0 }])
})

test('IPv6 clients are neighbours in a /64; two clients, users and what is no address are none', () => {
  const names = [
    'ip:2001:db8::1',
    'ip:2001:db8::2',
    'ip:2001:db8::3',
    'ip:192.0.2.1',
    'ip:192.0.2.2',
    'user:1',
    'user:2',
    'user:3',
    'ip:',
    'ip:unknown',
    'ip:203.0.113.1|user:7',
  ]
  const rows = groupNeighbours(
    names.map((name) => listed(name, 1)),
    'requests',
  )

  assert.deepEqual(
    rows.map(({ name }) => name),
    ['ip:2001:db8::/64', ...names.slice(3)],
  )
})

test('an empty list has no rows', () => {
  assert.deepEqual(groupNeighbours([], 'refused'), [])
})
