/** Charges are taken, and refunds given back, once: with the next batch, or when a store that failed answers again. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision, Settlement } from '../../src/limiter/algorithm.js'
import { failedAfter, failedLeaving, PartlyDecidedError, PartlySettledError } from '../../src/limiter/batch-store.js'
import { fallbackFor, type StoreErrorAction } from '../../src/limiter/fallback.js'
import { parseRate, toReservingPolicy } from '../../src/limiter/rate.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { toRefund, toSettlement } from '../../src/limiter/settlement.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { atEnd } from '../support/at-end.js'

const NOW_MS = 1_705_161_600_000
const POLICY = toReservingPolicy('token_bucket', parseRate('100/h'))
const WINDOW = toReservingPolicy('fixed_window', parseRate('100/m'))
const TIMEOUT_MS = 1_000

function checkOf(key: string, cost: number): Check {
  return { key, policy: POLICY, cost }
}

function windowCheck(cost: number, key = 'a'): Check {
  return { key, policy: WINDOW, cost }
}

/** A limiter whose store answers, rejects, or answers when it is let go, and a clock that leads its timers. */
function setUp(t: TestContext, concurrency = 1, onStoreError: StoreErrorAction = 'local') {
  const due = new Map<object, { readonly run: () => void; readonly atMs: number }>()
  const lines: string[] = []
  const [memory, local] = [new MemoryStore(), new MemoryStore()]
  let [passedMs, held]: [number, (() => void)[] | undefined] = [0, undefined]
  t.mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
    const timer = { refresh: () => due.set(timer, { run, atMs: passedMs + ms }), unref: () => timer }
    timer.refresh()
    return timer
  })
  t.mock.method(globalThis, 'clearTimeout', (timer: object) => due.delete(timer))
  const store = {
    concurrency,
    /** The amounts of each call, and of those that were taken. */
    calls: [] as number[][],
    taken: [] as number[],
    failure: undefined as Error | undefined,
    /** The counters that cannot be advanced while others can. */
    locked: [] as string[],
    check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> | readonly Decision[] {
      store.calls.push(checks.map(({ cost }) => cost))
      if (concurrency === Number.POSITIVE_INFINITY) return store.decide(checks, nowMs)
      return store.decideLater(checks, nowMs)
    },
    async decideLater(checks: readonly Check[], nowMs: number) {
      if (held !== undefined) await new Promise<void>((resolve) => held?.push(resolve))
      return store.decide(checks, nowMs)
    },
    decide(checks: readonly Check[], nowMs: number) {
      if (store.failure !== undefined) throw store.failure
      const isLocked = ({ key }: Check) => store.locked.includes(key)
      const taken = checks.filter((check) => check.charges && check.cost > 0 && !isLocked(check))
      store.taken.push(...taken.map(({ cost }) => cost))
      const decisions = checks.map((check) => (isLocked(check) ? undefined : memory.checkOne(check, nowMs)))
      if (decisions.includes(undefined)) throw new PartlyDecidedError(decisions, undefined)
      return decisions.flatMap((decision) => decision ?? [])
    },
    /** The amounts that were given back. */
    settled: [] as number[],
    settle(settlements: readonly Settlement[]): Promise<void> | void {
      return concurrency === Number.POSITIVE_INFINITY ? store.giveBack(settlements) : store.settleLater(settlements)
    },
    async settleLater(settlements: readonly Settlement[]) {
      if (held !== undefined) await new Promise<void>((resolve) => held?.push(resolve))
      store.giveBack(settlements)
    },
    giveBack(settlements: readonly Settlement[]) {
      if (store.failure !== undefined) throw store.failure
      const left = settlements.filter(({ key }) => store.locked.includes(key))
      const done = settlements.filter((each) => !left.includes(each))
      memory.settle(done)
      store.settled.push(...done.map(({ cost }) => cost))
      if (left.length > 0) throw new PartlySettledError(left, undefined)
    },
    count: (key = 'a') => memory.checkOne({ ...windowCheck(0, key) }, NOW_MS + passedMs).count,
    /** The name of the part of each counter that fails alone. */
    parts: {} as Readonly<Record<string, string>>,
    partOf: (key: string) => store.parts[key] ?? '',
    reset: (keys: readonly string[]) => memory.reset(keys),
    resetAll: () => undefined,
    hold() {
      held = []
    },
    letGo() {
      const waiting = held ?? []
      held = undefined
      for (const resolve of waiting) resolve()
    },
  }
  const limiter = createSafeLimiter({
    store,
    fallback: fallbackFor(onStoreError, {
      decide: (check, nowMs) => local.checkOne(check, nowMs),
      settle: (settlements) => local.settle(settlements),
      reset: (keys) => local.reset(keys),
      resetAll: () => undefined,
    }),
    now: () => NOW_MS + passedMs,
    timeoutMs: TIMEOUT_MS,
    log: { error: (_details, message) => lines.push(message), info: () => undefined },
  })
  atEnd(t, async () => limiter.close())
  return {
    store,
    limiter,
    lines,
    charge: async (cost: number, key = 'a') => (await limiter.charge(checkOf(key, cost), NOW_MS + passedMs))?.remaining,
    check: async (cost: number, key = 'a') => limiter.check(checkOf(key, cost), NOW_MS + passedMs),
    /** Reserves of a window, and answers what gives that back, or a part of it. */
    async reserve(cost: number, key = 'a') {
      const [check, nowMs] = [windowCheck(cost, key), NOW_MS + passedMs]
      const decision = await limiter.check(check, nowMs)
      const settlementOf = (unused: number) => toSettlement({ ...check, cost: unused }, decision, nowMs)
      return {
        decision,
        giveBack: (unused = cost) => limiter.giveBack([settlementOf(unused)], NOW_MS + passedMs),
        settle: async (unused = cost) => limiter.settle(settlementOf(unused), NOW_MS + passedMs),
      }
    },
    local: (key = 'a') => local.checkOne(windowCheck(0, key), NOW_MS + passedMs).count,
    /** Lets time pass, and the timers that are due in it run. */
    async pass(ms: number): Promise<void> {
      for (const endMs = passedMs + ms; passedMs < endMs; await turn()) {
        passedMs += 10
        for (const [timer, { run, atMs }] of [...due]) if (atMs <= passedMs && due.delete(timer)) run()
      }
    },
  }
}

test('charges reach the store with the checks of their moment, ahead of these, and answer what they leave', async (t) => {
  const { store, charge, check } = setUp(t)
  const [reserved, first, second] = await Promise.all([check(90), charge(15), charge(20)])
  assert.deepEqual(store.calls, [[15, 20, 90]])
  assert.deepEqual([reserved.allowed, first, second], [false, 85, 65])
  assert.equal((await check(66)).allowed, false)
  assert.equal(await charge(80), 0, 'no remembered refusal answers a charge')
  assert.deepEqual(store.taken, [15, 20, 80])
})

for (const [what, concurrency] of [
  ['a store', 1],
  ['a store in memory', Number.POSITIVE_INFINITY],
] as const) {
  test(`charges while ${what} fails resolve with nothing, count in this process, and are taken in their order when it answers`, async (t) => {
    const { store, limiter, charge, check, pass } = setUp(t, concurrency)
    store.failure = new Error('away')
    for (const amount of [60, 30, 0, 20]) assert.equal(await charge(amount), undefined)
    assert.equal((await check(1)).allowed, false)
    assert.equal(limiter.owedCharges, 3)
    store.failure = undefined
    await pass(1_500)
    assert.deepEqual([store.taken, limiter.owedCharges], [[60, 30, 20], 0])
    assert.deepEqual([(await check(1)).allowed, await charge(1), limiter.lostCharges], [false, 0, 0])
    assert.deepEqual(store.taken, [60, 30, 20, 1])
  })
}

test('charges that fail once more stay in their order, and are not lost', async (t) => {
  const { store, limiter, charge, check, pass } = setUp(t)
  store.locked = ['a', 'b']
  await Promise.all([charge(1, 'a'), charge(2, 'b'), charge(3, 'c'), check(1, 'd')])
  assert.deepEqual([store.taken, limiter.owedCharges], [[3], 2])
  const calls = store.calls.length
  await check(1, 'd')
  assert.equal(store.calls.length, calls + 1, 'they are not sent again at once')
  store.locked = ['b']
  await pass(1_000)
  await check(1, 'd')
  await turn()
  assert.deepEqual([store.taken, limiter.owedCharges], [[3, 1], 1])
  store.locked = []
  await pass(1_000)
  await check(1, 'd')
  await turn()
  assert.deepEqual([store.taken, limiter.owedCharges], [[3, 1, 2], 0])
})

test('a charge without an answer in time resolves with nothing, and is not taken twice when the answer comes after all', async (t) => {
  const { store, limiter, charge, check, pass } = setUp(t)
  store.hold()
  const charging = charge(60)
  await pass(TIMEOUT_MS + 20)
  assert.deepEqual([await charging, limiter.owedCharges], [undefined, 0])
  store.letGo()
  await pass(3_000)
  assert.deepEqual(store.taken, [60])
  const { count } = await check(0)
  assert.ok(count === 60 || count === 59, `${count}`)
})

test('a charge that a store rejects after its time is owed', async (t) => {
  const { store, limiter, charge, pass } = setUp(t)
  store.hold()
  const charging = charge(60)
  await pass(TIMEOUT_MS + 20)
  assert.equal(await charging, undefined)
  store.failure = new Error('away')
  store.letGo()
  await turn()
  assert.equal(limiter.owedCharges, 1)
  store.failure = undefined
  await pass(3_000)
  assert.deepEqual([store.taken, limiter.owedCharges], [[60], 0])
})

test('a charge that waits behind a batch without an answer resolves in time, too, and is taken later', async (t) => {
  const { store, charge, check, pass } = setUp(t)
  store.hold()
  const checking = check(1)
  await turn()
  await turn()
  const charging = charge(60)
  await pass(TIMEOUT_MS + 20)
  assert.equal(await charging, undefined)
  store.letGo()
  await pass(3_000)
  await checking
  assert.deepEqual(store.taken, [60])
})

test('10,000 charges are owed, and further ones are lost, counted, and logged once an outage', async (t) => {
  const { store, limiter, charge, pass, lines } = setUp(t)
  store.failure = new Error('away')
  await charge(1)
  for (let count = 0; count < 10_002; count++) void charge(2)
  assert.deepEqual([limiter.owedCharges, limiter.lostCharges], [10_000, 3])
  store.failure = undefined
  await pass(1_500)
  assert.deepEqual([store.taken.length, store.taken[0], limiter.owedCharges], [10_000, 1, 0])
  assert.ok(store.calls.every((call) => call.length <= 512))
  const lost = () => lines.filter((line) => line.includes('lost'))
  assert.deepEqual(lost(), ['Rate limit charges are being lost: the store has failed for longer than 10000 of them'])
  store.failure = new Error('away')
  await charge(1)
  for (let count = 0; count < 10_002; count++) void charge(2)
  assert.equal(lost().length, 2)
})

test('a limiter that closes sends what is owed', async (t) => {
  const { store, limiter, charge, check } = setUp(t)
  store.locked = ['a']
  await Promise.all([charge(5), check(1, 'b')])
  store.locked = []
  await limiter.close()
  assert.deepEqual(store.taken, [5])
})

for (const [what, concurrency] of [
  ['a store', 1],
  ['a store in memory', Number.POSITIVE_INFINITY],
] as const) {
  test(`what is given back while ${what} fails is owed, and is given back once when it answers`, async (t) => {
    const { store, limiter, reserve, pass } = setUp(t, concurrency)
    const [first, second] = [await reserve(60), await reserve(30)]
    store.failure = new Error('away')
    await first.settle(50)
    second.giveBack()
    await limiter.refund(toRefund(windowCheck(5), NOW_MS), NOW_MS)
    assert.deepEqual([store.count(), limiter.owedRefunds], [90, 3])
    store.failure = undefined
    await pass(1_500)
    assert.deepEqual([store.settled, store.count(), limiter.owedRefunds], [[50, 30, 5], 5, 0])
    await reserve(1)
    assert.deepEqual([store.settled.length, limiter.lostRefunds], [3, 0])
  })
}

test('what is owed of a window that has ended is not sent', async (t) => {
  const { store, limiter, reserve, pass } = setUp(t)
  const { settle } = await reserve(60)
  store.failure = new Error('away')
  await settle()
  await pass(60_000)
  store.failure = undefined
  await pass(30_000)
  assert.deepEqual([store.settled, limiter.owedRefunds, limiter.lostRefunds, limiter.storeIsDown], [[], 0, 0, false])
})

test('a refund without an answer in time is not given back twice, and is owed where the store rejects it after all', async (t) => {
  for (const failure of [undefined, new Error('away')]) {
    const { store, limiter, reserve, pass } = setUp(t)
    const { giveBack } = await reserve(60)
    store.hold()
    giveBack()
    await pass(TIMEOUT_MS + 20)
    assert.equal(limiter.owedRefunds, 0)
    store.failure = failure
    store.letGo()
    await turn()
    assert.equal(limiter.owedRefunds, failure === undefined ? 0 : 1)
    store.failure = undefined
    await pass(3_000)
    assert.deepEqual([store.settled, store.count(), limiter.owedRefunds], [[60], 0, 0])
    t.mock.restoreAll()
  }
})

test('of a settlement that fails in part, the rest is owed, and sent again after a second', async (t) => {
  const { store, limiter, reserve, pass } = setUp(t)
  const taken = await Promise.all([reserve(1, 'a'), reserve(2, 'b'), reserve(3, 'c')])
  store.locked = ['b']
  for (const { giveBack } of taken) giveBack()
  await turn()
  await turn()
  assert.deepEqual([store.settled, limiter.owedRefunds, limiter.storeIsDown], [[1, 3], 1, false])
  await reserve(1, 'c')
  assert.equal(limiter.owedRefunds, 1)
  store.locked = []
  await reserve(1, 'c')
  assert.deepEqual(store.settled, [1, 3], 'it is not sent again at once')
  await pass(1_000)
  await reserve(1, 'c')
  await turn()
  assert.deepEqual([store.settled, limiter.owedRefunds, store.count('b')], [[1, 3, 2], 0, 0])
})

test('of a settlement of which a store has done a part before it failed, only the rest is owed', async (t) => {
  const { store, limiter, reserve, pass } = setUp(t)
  const taken = [await reserve(1, 'a'), await reserve(2, 'b')]
  t.mock.method(
    store,
    'settleLater',
    async ([first, ...left]: Settlement[]) => {
      store.giveBack(first === undefined ? [] : [first])
      throw failedLeaving(new Error('away'), left)
    },
    { times: 1 },
  )
  for (const { giveBack } of taken) giveBack()
  await turn()
  await turn()
  assert.deepEqual([store.settled, limiter.owedRefunds], [[1], 1])
  await pass(1_500)
  assert.deepEqual([store.settled, limiter.owedRefunds], [[1, 2], 0])
})

test('10,000 refunds are owed, and further ones are lost, counted, and logged once an outage', async (t) => {
  const { store, limiter, reserve, pass, lines } = setUp(t)
  const { settle } = await reserve(60)
  store.failure = new Error('away')
  await settle(1)
  await Promise.all(Array.from({ length: 10_002 }, (_, count) => settle(count < 10_000 ? 1 : 2)))
  assert.deepEqual([limiter.owedRefunds, limiter.lostRefunds], [10_000, 3])
  store.failure = undefined
  await pass(1_500)
  assert.deepEqual([store.settled.length, limiter.owedRefunds], [10_000, 0])
  assert.deepEqual(
    lines.filter((line) => line.includes('lost')),
    ['Rate limit refunds are being lost: the store has failed for longer than 10000 of them'],
  )
})

test('a limiter that closes gives back what is owed', async (t) => {
  const { store, limiter, reserve } = setUp(t)
  const { settle } = await reserve(60)
  store.locked = ['a']
  await settle(50)
  store.locked = []
  await limiter.close()
  assert.deepEqual(store.settled, [50])
})

for (const order of ['before', 'after'] as const) {
  test(`a reservation that the store takes after its time is given back once where the request gives it back ${order} that`, async (t) => {
    const { store, limiter, reserve, pass, local } = setUp(t)
    store.hold()
    const reserving = reserve(60)
    await pass(TIMEOUT_MS + 20)
    const { decision, giveBack } = await reserving
    assert.deepEqual([decision.allowed, limiter.madeByFallback(decision), local()], [true, true, 60])
    if (order === 'before') giveBack()
    await turn()
    store.letGo()
    await turn()
    if (order === 'after') giveBack()
    await pass(3_000)
    assert.deepEqual([store.settled, store.count(), local(), limiter.owedRefunds], [[60], 0, 0, 0])
  })
}

test('a reservation that the store rejects, or refuses after its time, is not given back to it', async (t) => {
  for (const failure of [undefined, new Error('away')]) {
    const { store, limiter, reserve, pass } = setUp(t)
    await reserve(70)
    store.hold()
    const reserving = reserve(60)
    await pass(TIMEOUT_MS + 20)
    store.failure = failure
    store.letGo()
    await turn()
    const { giveBack } = await reserving
    giveBack()
    store.failure = undefined
    await pass(3_000)
    assert.deepEqual([store.settled, store.count(), limiter.owedRefunds], [[], 70, 0])
    t.mock.restoreAll()
  }
})

test('a reservation that waits for a batch longer than its time, and is taken then, is given back', async (t) => {
  const { store, limiter, pass } = setUp(t)
  const check = windowCheck(60)
  store.hold()
  const checking = limiter.check(windowCheck(1, 'b'), NOW_MS)
  await turn()
  await turn()
  const decision = limiter.check(check, NOW_MS, TIMEOUT_MS - 100)
  await turn()
  store.letGo()
  await checking
  store.hold()
  await pass(120)
  limiter.giveBack([toSettlement(check, await decision, NOW_MS)], NOW_MS)
  store.letGo()
  await pass(3_000)
  assert.deepEqual([store.settled, store.count()], [[60], 0])
})

test('what a store has taken of a batch before it failed is given back, and nothing of the others', async (t) => {
  const { store, limiter, reserve, pass } = setUp(t)
  t.mock.method(
    store,
    'decideLater',
    async ([first]: Check[], nowMs: number) => {
      throw failedAfter(new Error('away'), store.decide(first === undefined ? [] : [first], nowMs))
    },
    { times: 1 },
  )
  const taken = await Promise.all([reserve(60, 'a'), reserve(50, 'b')])
  assert.deepEqual([store.count('a'), store.count('b'), limiter.storeIsDown], [60, 0, true])
  for (const { giveBack } of taken) giveBack()
  await pass(3_000)
  assert.deepEqual([store.settled, store.count('a')], [[60], 0])
})

test('a reservation that the fallback refuses, and the store takes later, is given back', async (t) => {
  const { store, reserve, pass } = setUp(t, 1, 'deny')
  store.hold()
  const reserving = reserve(60)
  await pass(TIMEOUT_MS + 20)
  assert.equal((await reserving).decision.unavailable, true)
  store.letGo()
  await pass(3_000)
  assert.deepEqual([store.settled, store.count()], [[60], 0])
})

test('what the fallback has decided in one part of a store is not given back by another one', async (t) => {
  const { store, limiter, reserve } = setUp(t)
  await reserve(70)
  store.locked = ['a']
  const [{ giveBack }] = await Promise.all([reserve(60), reserve(1, 'b')])
  store.locked = []
  store.parts = { a: 'a locked row' }
  giveBack()
  await reserve(1, 'b')
  await reserve(1)
  assert.deepEqual([store.settled, store.count(), limiter.owedRefunds], [[], 71, 0])
})
