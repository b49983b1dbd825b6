import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allRefused, allRequests } from '../../src/reports/breakdown.js'
import { pathBreakdown } from '../../src/reports/path-breakdown.js'

const templateFor = (method: string, path: string) =>
  method === 'GET' && /^\/items\/[^/]+$/.test(path) ? '/items/:id' : undefined

function counts(path: string, total: number, { method = 'GET', blocked = 0 } = {}) {
  return { path, method, total, blocked, would_block: 0, denied: 0 }
}

const namesOf = (shares: readonly { readonly name: string; readonly total: number }[]) =>
  shares.map(({ name, total }) => [name, total])

test('the paths of a route are one share, which has its paths', () => {
  const { shares, other } = pathBreakdown(
    [
      counts('/items/1', 3),
      counts('/items/2', 5),
      counts('/items/1', 4, { blocked: 1 }),
      counts('/search', 6),
      counts('/items/1', 2, { method: 'PUT' }),
    ],
    templateFor,
    allRequests,
  )
  assert.deepEqual(namesOf(shares), [
    ['/items/:id', 12],
    ['/search', 6],
    ['/items/1', 2],
  ])
  assert.deepEqual(namesOf(shares[0]?.paths?.shares ?? []), [
    ['/items/1', 7],
    ['/items/2', 5],
  ])
  assert.equal(shares[0]?.blocked, 1)
  assert.deepEqual([shares[1]?.paths, shares[2]?.paths, other.total], [undefined, undefined, 0])
})

test('a thousand paths of a route leave room for other routes, and those that are not listed are summed', () => {
  const items = Array.from({ length: 1_000 }, (_, id) => counts(`/items/${id}`, 2))
  const { shares, other } = pathBreakdown([...items, counts('/search', 1), counts('', 7)], templateFor, allRequests)
  assert.deepEqual(namesOf(shares), [
    ['/items/:id', 2_000],
    ['/search', 1],
  ])
  assert.equal(shares[0]?.paths?.shares.length, 10)
  assert.equal(shares[0]?.paths?.other.total, 1_980)
  // The rollups had no room for the paths of these.
  assert.equal(other.total, 7)
})

test('the order of routes and of their paths is by the measure', () => {
  const traffic = [
    counts('/items/1', 90),
    counts('/items/2', 10, { blocked: 2 }),
    counts('/search', 5, { blocked: 3 }),
    counts('/quiet', 50),
  ]
  const { shares } = pathBreakdown(traffic, templateFor, allRefused)
  assert.deepEqual(namesOf(shares), [
    ['/search', 5],
    ['/items/:id', 100],
  ])
  assert.deepEqual(namesOf(shares[1]?.paths?.shares ?? []), [['/items/2', 10]])
})

test('a path that spells a template is one of its paths where a client requested it', () => {
  const { shares } = pathBreakdown([counts('/items/:id', 1), counts('/items/2', 1)], templateFor, allRequests)
  assert.deepEqual(namesOf(shares), [['/items/:id', 2]])
  assert.deepEqual(namesOf(shares[0]?.paths?.shares ?? []), [
    ['/items/2', 1],
    ['/items/:id', 1],
  ])
})
