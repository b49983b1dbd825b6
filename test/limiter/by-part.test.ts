/** A store whose parts fail alone, as the nodes of a cluster do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { decideWithoutStore } from '../../src/limiter/fallback.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { fakeClock } from '../support/clock.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

const NOW_MS = 1_705_161_600_000
const POLICY = { algorithm: 'fixed_window', limit: 100, periodMs: 60_000 } as const
const LEASE_MS = 1_000

/** A limiter on a store with a part for the first letter of each key. The parts in `away` fail, those in `frozen` are silent. */
function setUp(leaseMs?: number) {
  const memory = new MemoryStore()
  const [away, frozen] = [new Set<string>(), new Set<string>()]
  const batches: string[][] = []
  const lines: string[] = []
  const clock = fakeClock(NOW_MS)
  async function part(name: string): Promise<void> {
    if (frozen.has(name)) await new Promise(() => undefined)
    if (away.has(name)) throw new Error(`${name} is away`)
  }
  const limiter = createSafeLimiter({
    store: {
      concurrency: 1,
      partOf: (key) => key.charAt(0),
      async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
        batches.push(checks.map(({ key }) => key))
        for (const { key } of checks) await part(key.charAt(0))
        return memory.check(checks, nowMs)
      },
      async settle(settlements) {
        for (const { key } of settlements) await part(key.charAt(0))
        memory.settle(settlements)
      },
      async resets() {
        await part('r')
        return 0
      },
      async reset(keys) {
        for (const key of keys) await part(key.charAt(0))
        memory.reset(keys)
      },
    },
    fallback: {
      decide: (check) => decideWithoutStore(false, check),
      settle: () => undefined,
      reset: () => undefined,
      resetAll: () => undefined,
    },
    now: clock.now,
    lease: leaseMs === undefined ? undefined : { leaseMs, now: clock.now },
    timeoutMs: 50,
    log: {
      error: (_details, message) => lines.push(message),
      info: (message) => lines.push(message),
    },
  })
  async function ask(key: string): Promise<number | 'unavailable'> {
    const { count, unavailable } = await limiter.checkLeased({ key, policy: POLICY, cost: 1 }, clock.now())
    return unavailable ? 'unavailable' : count
  }
  return { limiter, ask, away, frozen, batches, lines, clock }
}

test('each part has batches of its own, and one that fails leaves the others to the store', long(), async (t) => {
  const { limiter, ask, away, batches, lines } = setUp()
  t.after(() => limiter.close())
  assert.deepEqual(await Promise.all(['a1', 'b1', 'a2', 'a1'].map(ask)), [1, 1, 1, 2])
  assert.deepEqual(batches, [['a1', 'a2', 'a1'], ['b1']])
  away.add('a')
  assert.deepEqual(await Promise.all(['a1', 'b1'].map(ask)), ['unavailable', 2])
  assert.deepEqual(await Promise.all(['a9', 'b1'].map(ask)), ['unavailable', 3])
  assert.equal(limiter.storeIsDown, true)
  assert.equal(limiter.storeErrors, 1)
  away.clear()
  await eventually('the part is asked again', () => !limiter.storeIsDown)
  assert.deepEqual(await Promise.all(['a1', 'b1'].map(ask)), [3, 4])
  assert.deepEqual(lines, [
    'Rate limit store failed at a: onStoreError decides for its counters until it answers again (tried once a second)',
    'Rate limit store answers again at a, after 0 s',
  ])
})

test('no check waits for a part that is silent but its own', async (t) => {
  const { limiter, ask, frozen } = setUp()
  t.after(() => limiter.close())
  frozen.add('a')
  const answered: string[] = []
  const answers = ['a1', 'b1', 'b2'].map(async (key) => {
    await ask(key)
    answered.push(key)
  })
  await turn()
  await turn()
  assert.deepEqual(answered, ['b1', 'b2'])
  await Promise.all(answers)
})

test('a reset reaches each part, also where another one fails', async (t) => {
  const { limiter, ask, away } = setUp()
  t.after(() => limiter.close())
  await Promise.all(['a1', 'b1'].map(ask))
  away.add('a')
  await assert.rejects(limiter.reset(['a1', 'b1']), /a is away/)
  assert.equal(await ask('b1'), 1)
})

test('the errors of a part that is not used any more still count', async (t) => {
  const { limiter, ask, away, clock } = setUp()
  t.after(() => limiter.close())
  away.add('a')
  await ask('a1')
  clock.advance(60_000)
  await ask('b1')
  assert.equal(limiter.storeIsDown, false)
  assert.equal(limiter.storeErrors, 1)
})

test('a part that is owed charges stays, and another one is not owed them', async (t) => {
  const { limiter, ask, away, clock } = setUp()
  t.after(() => limiter.close())
  away.add('a')
  const charge = async (key: string) => limiter.charge({ key, policy: POLICY, cost: 3 }, clock.now())
  const charged = await Promise.all([charge('a1'), charge('b1')])
  assert.deepEqual(
    charged.map((decision) => decision?.remaining),
    [undefined, 97],
  )
  clock.advance(60_000)
  await ask('c1')
  assert.deepEqual([limiter.owedCharges, limiter.lostCharges], [1, 0])
})

test('a part that is owed refunds stays', async (t) => {
  const { limiter, ask, away, clock } = setUp()
  t.after(() => limiter.close())
  const check = { key: 'a1', policy: POLICY, cost: 3 }
  const taken = toSettlement(check, await limiter.check(check, clock.now()), clock.now())
  away.add('a')
  await limiter.settle(taken, clock.now())
  clock.advance(60_000)
  await ask('c1')
  assert.deepEqual([limiter.owedRefunds, limiter.lostRefunds], [1, 0])
})

for (const [what, part] of [
  ['fails', 'away'],
  ['is silent', 'frozen'],
] as const) {
  test(`where the part that counts resets ${what}, clients with leases go on in the others`, async (t) => {
    const { limiter, ask, clock, lines, ...parts } = setUp(LEASE_MS)
    t.after(() => limiter.close())
    parts[part].add('r')
    for (let request = 0; request < 200; request++) {
      assert.notEqual(await ask('b1'), 'unavailable')
      clock.advance(10)
    }
    await limiter.close()
    assert.deepEqual(lines, [])
  })
}
