/** A look at a counter, a check that takes nothing, creates none: neither a row, nor a key, nor an entry in memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { Database } from '../../../src/database/database.js'
import { type Check, type Decision, type Policy, RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { parseRate, toPolicy, toReservingPolicy } from '../../../src/limiter/rate.js'
import { MemoryStore } from '../../../src/limiter/stores/memory/memory-store.js'
import { StoredCounters } from '../../../src/limiter/stores/sql/stored-counters.js'
import { atEnd } from '../../support/at-end.js'
import { openStore, type StoreLocation } from '../../support/store-location.js'
import { forEachStore } from '../../support/stores.js'

const NOW_MS = 1_705_161_600_000

/** Every form of policy that a table, a key or an entry has a form of its own for. */
const POLICIES: readonly Policy[] = [
  ...RATE_ALGORITHMS.flatMap((algorithm) => [
    toPolicy(algorithm, parseRate('5/m')),
    toPolicy(algorithm, parseRate('5/m, 20/h')),
    toReservingPolicy(algorithm, parseRate('500/h')),
  ]),
  toPolicy('fixed_window', parseRate('5/mo')),
  toPolicy('fixed_window', parseRate('0/m')),
  toPolicy('concurrency', parseRate('5/60s')),
]

function checksOf(cost: number, permit = 1): Check[] {
  return POLICIES.map((policy, index) => ({ key: `rule:look-${index}|user:7`, policy, cost, permit: permit + index }))
}

/** Returns the number of counters that a location has. */
async function countersIn(location: StoreLocation): Promise<number> {
  if ('redis' in location) {
    const client = new Redis(location.redis)
    const keys = await client.keys(`fsr:${location.namespace}:?:*`)
    client.disconnect()
    return keys.length
  }
  const database = new Database(location.database, location.schema)
  const stored = new StoredCounters(database, location.namespace)
  const found = await stored.find({ names: [], prefixes: [''], after: '', limit: 1_000 })
  await database.close()
  return found.length
}

/** Returns what the decisions say of the counters, one for one policy. */
function standings(decisions: readonly Decision[]) {
  return decisions.map(({ allowed, count, limit, remaining }) => [allowed, count, limit, remaining])
}

forEachStore((_name, open) => {
  test('a look creates no counter, and answers as one at a counter of which nothing is used', async (t) => {
    const { location, close } = await open()
    atEnd(t, close)
    const store = openStore(location)
    atEnd(t, () => store.close())
    const memory = new MemoryStore()
    const looked = standings(await store.check(checksOf(0), NOW_MS))
    assert.deepEqual(looked, standings(memory.check(checksOf(0), NOW_MS)))
    // Several looks at one counter, and at others, in one batch.
    await store.check([...checksOf(0), ...checksOf(0)], NOW_MS)
    assert.equal(await countersIn(location), 0)
    assert.equal(memory.size, 0)

    // In one batch with checks that take something, and once there is a counter.
    const others = checksOf(0).map((check) => ({ ...check, key: `${check.key}0` }))
    const mixed = await store.check([...others, ...checksOf(1), ...checksOf(0)], NOW_MS)
    assert.deepEqual(standings(mixed), standings(memory.check([...others, ...checksOf(1), ...checksOf(0)], NOW_MS)))
    assert.deepEqual(standings(mixed.slice(0, POLICIES.length)), looked)
    const created = await countersIn(location)
    assert.deepEqual(standings(await store.check(checksOf(0), NOW_MS)), standings(mixed.slice(-POLICIES.length)))
    assert.equal(await countersIn(location), created)
    assert.ok(created <= POLICIES.length && created >= POLICIES.length - 1, String(created))
  })
})
