/** Charges are taken once: with the next batch, or when a store that failed answers again. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { PartlyDecidedError } from '../../src/limiter/batch-store.js'
import { fallbackFor } from '../../src/limiter/fallback.js'
import { parseRate, toReservingPolicy } from '../../src/limiter/rate.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { atEnd } from '../support/at-end.js'

const NOW_MS = 1_705_161_600_000
const POLICY = toReservingPolicy('token_bucket', parseRate('100/h'))
const TIMEOUT_MS = 1_000

function checkOf(key: string, cost: number): Check {
  return { key, policy: POLICY, cost }
}

/** A limiter whose store answers, rejects, or answers when it is let go, and a clock that leads its timers. */
function setUp(t: TestContext, concurrency = 1) {
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
    fallback: fallbackFor('local', {
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
