/** What a request took is given back before later checks where another limit refuses it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision, Settlement } from '../../src/limiter/algorithm.js'
import { createSafeLimiter, type SafeLimiterOptions } from '../../src/limiter/safe-limiter.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { eventually } from '../support/eventually.js'
import { countsIn } from '../support/fallbacks.js'
import { long } from '../support/long.js'

const POLICY = { algorithm: 'fixed_window', limit: 5, periodMs: 60_000 } as const
const NOW_MS = 1_705_161_600_000

function checkOf(key: string): Check {
  return { key, policy: POLICY, cost: 1 }
}

/** A store that writes down its calls, whose settlements and checks can be held up, and that can fail. */
function controlledStore(isOrdered: boolean, concurrency = 1) {
  const memory = new MemoryStore()
  const waiting: (() => void)[] = []
  const hold = () => new Promise<void>((resolve) => waiting.push(resolve))
  const store = {
    isOrdered,
    concurrency,
    calls: [] as string[],
    holds: undefined as 'checks' | 'settlements' | undefined,
    failure: undefined as Error | undefined,
    async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
      store.calls.push(`check ${checks.map(({ key }) => key).join(' ')}`)
      if (store.holds === 'checks') await hold()
      if (store.failure !== undefined) throw store.failure
      return memory.check(checks, nowMs)
    },
    async settle(settlements: readonly Settlement[]): Promise<void> {
      store.calls.push(`settle ${settlements.map(({ key }) => key).join(' ')}`)
      if (store.holds === 'settlements') await hold()
      if (store.failure !== undefined) throw store.failure
      memory.settle(settlements)
      store.calls.push('settled')
    },
    reset: (keys: readonly string[]) => memory.reset(keys),
    resetAll: () => undefined,
    count: (key: string) => memory.checkOne({ ...checkOf(key), cost: 0 }, NOW_MS).count,
    letGo() {
      store.holds = undefined
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
  return store
}

function limiterOf(store: SafeLimiterOptions['store'], options: Partial<SafeLimiterOptions> = {}) {
  const local = new MemoryStore()
  const limiter = createSafeLimiter({
    store,
    fallback: countsIn(local),
    now: () => NOW_MS,
    timeoutMs: 1_000,
    log: { error: () => undefined, info: () => undefined },
    ...options,
  })
  async function take(key: string): Promise<Settlement> {
    return toSettlement(checkOf(key), await limiter.check(checkOf(key), NOW_MS), NOW_MS)
  }
  return { limiter, take, local: (key: string) => local.checkOne({ ...checkOf(key), cost: 0 }, NOW_MS).count }
}

test('it is settled at once, before the checks of the next batch, which wait for that', async () => {
  const store = controlledStore(false, 2)
  const { limiter, take } = limiterOf(store)
  const taken = await take('a')
  store.holds = 'settlements'
  limiter.giveBack([taken], NOW_MS)
  await turn()
  assert.deepEqual(store.calls, ['check a', 'settle a'], 'without a check that would send it')
  const decisions = [limiter.check(checkOf('a'), NOW_MS), turn().then(() => limiter.check(checkOf('b'), NOW_MS))]
  await turn()
  await turn()
  assert.deepEqual(store.calls.length, 2, 'although the store takes two batches at once')
  store.letGo()
  assert.equal((await Promise.all(decisions))[0]?.count, 1)
  assert.deepEqual(store.calls, ['check a', 'settle a', 'settled', 'check a', 'check b'])
})

test('it is settled ahead of a batch that waited behind one under way', async () => {
  const store = controlledStore(false)
  const { limiter, take } = limiterOf(store)
  const taken = await take('a')
  store.holds = 'checks'
  const first = limiter.check(checkOf('b'), NOW_MS)
  await turn()
  const second = limiter.check(checkOf('a'), NOW_MS)
  limiter.giveBack([taken], NOW_MS)
  await turn()
  store.letGo()
  assert.deepEqual([(await first).count, (await second).count], [1, 1])
  assert.deepEqual(store.calls, ['check a', 'check b', 'settle a', 'settled', 'check a'])
})

test('no check waits for it where the store keeps the order of calls', async () => {
  const store = controlledStore(true)
  const { limiter, take } = limiterOf(store)
  const taken = await take('a')
  store.holds = 'settlements'
  limiter.giveBack([taken], NOW_MS)
  await limiter.check(checkOf('b'), NOW_MS)
  assert.deepEqual(store.calls, ['check a', 'settle a', 'check b'])
  store.letGo()
  await limiter.close()
  assert.equal(store.count('a'), 0)
})

test('a check that waits for it waits no longer than its time', async () => {
  const store = controlledStore(false)
  const { limiter, take } = limiterOf(store, { timeoutMs: 20 })
  const taken = await take('a')
  store.holds = 'settlements'
  limiter.giveBack([taken], NOW_MS)
  const { count } = await limiter.check(checkOf('b'), NOW_MS, 0)
  assert.deepEqual([count, store.calls], [1, ['check a', 'settle a']], 'the fallback decides')
  store.letGo()
})

test('it stays taken while the store fails, and is given back once when that answers again', long(), async () => {
  const store = controlledStore(false)
  const { limiter, take } = limiterOf(store)
  const taken = await take('a')
  store.failure = new Error('connection reset')
  limiter.giveBack([taken], NOW_MS)
  assert.equal((await limiter.check(checkOf('b'), NOW_MS)).count, 1, 'the fallback decides')
  assert.equal(limiter.storeIsDown, true)
  store.failure = undefined
  assert.deepEqual([store.count('a'), limiter.owedRefunds], [1, 1])
  await eventually('the store is asked again', () => !limiter.storeIsDown)
  await eventually('it is given back', () => store.count('a') === 0)
  await limiter.close()
  assert.deepEqual([store.calls.filter((call) => call === 'settled').length, limiter.owedRefunds], [1, 0])
})

test('what the fallback allowed is given back there, and not to a store that never took it', async () => {
  const store = controlledStore(false)
  const { limiter, take, local } = limiterOf(store, { timeoutMs: 20 })
  await take('a')
  store.holds = 'checks'
  const taken = await take('a')
  assert.equal(local('a'), 1)
  limiter.giveBack([taken], NOW_MS)
  await turn()
  assert.equal(local('a'), 0)
  store.letGo()
  await limiter.close()
  assert.deepEqual(store.calls, ['check a', 'check a'])
})

test('it is sent before a limiter is closed', async () => {
  const store = controlledStore(false)
  const { limiter, take } = limiterOf(store)
  const taken = await take('a')
  limiter.giveBack([taken], NOW_MS)
  await limiter.close()
  assert.equal(store.count('a'), 0)
})

test('each part of a store gets its own back', async () => {
  const memory = controlledStore(false)
  const { limiter, take } = limiterOf({
    ...memory,
    check: (checks, nowMs) => memory.check(checks, nowMs),
    settle: (settlements) => memory.settle(settlements),
    partOf: (key) => key.charAt(0),
  })
  const taken = await Promise.all(['a1', 'b1', 'a2'].map(take))
  limiter.giveBack(taken, NOW_MS)
  await limiter.close()
  assert.deepEqual(
    memory.calls.filter((call) => call.startsWith('settle ')),
    ['settle a1 a2', 'settle b1'],
  )
})

test('a refusal is remembered for a moment only while requests give back: the room may be there again', async () => {
  for (const givesBack of [false, true]) {
    const store = controlledStore(false)
    const { limiter } = limiterOf(store, { givesBack: () => givesBack })
    for (let count = 1; count <= 6; count++) await limiter.check(checkOf('a'), NOW_MS)
    assert.equal(limiter.remembered(checkOf('a'), NOW_MS + 199)?.count, 7)
    assert.equal(limiter.remembered(checkOf('a'), NOW_MS + 200)?.count, givesBack ? undefined : 8)
  }
})
