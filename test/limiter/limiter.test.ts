import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Check, Decision, Settlement } from '../../src/limiter/algorithm.js'
import { fallbackFor } from '../../src/limiter/fallback.js'
import { createSafeLimiter, type SafeLimiterOptions } from '../../src/limiter/safe-limiter.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { fakeClock } from '../support/clock.js'
import { eventually } from '../support/eventually.js'
import { PASSES } from '../support/fallbacks.js'
import { long } from '../support/long.js'

const POLICY = { algorithm: 'fixed_window', limit: 5, periodMs: 60_000 } as const
const NOW_MS = 1_705_161_600_000

function checkOf(key: string): Check {
  return { key, policy: POLICY, cost: 1 }
}

/** A store in memory whose answers wait until they are let go, or that fails. */
function controlledStore(concurrency: number) {
  const memory = new MemoryStore()
  const waiting: (() => void)[] = []
  const batches: string[][] = []
  const store = {
    concurrency,
    batches,
    held: false,
    failure: undefined as Error | undefined,
    async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
      batches.push(checks.map(({ key }) => key))
      if (store.held) await new Promise<void>((resolve) => waiting.push(resolve))
      if (store.failure !== undefined) throw store.failure
      return memory.check(checks, nowMs)
    },
    reset: (keys: readonly string[]) => memory.reset(keys),
    resetAll: () => undefined,
    letGo() {
      store.held = false
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
  return store
}

function limiterOf(store: SafeLimiterOptions['store'], timeoutMs = 1_000) {
  const lines: string[] = []
  const log = {
    error: (_details: object, message: string) => lines.push(`error ${message}`),
    info: (message: string) => lines.push(`info ${message}`),
  }
  const clock = fakeClock(NOW_MS)
  const limiter = createSafeLimiter({ store, fallback: PASSES, now: clock.now, timeoutMs, log })
  /** Lets time pass, and the probes that are due in it be answered. */
  async function pass({ mock }: TestContext, ms: number): Promise<void> {
    clock.advance(ms)
    for (let passed = 0; passed < ms; passed += 500) {
      mock.timers.tick(500)
      await turn()
    }
  }
  return { limiter, lines, clock, pass }
}

/** Replaces the timers of a limiter, which must be called before it is made. */
function controlTimers({ mock }: TestContext): void {
  mock.timers.enable({ apis: ['setTimeout'] })
}

/** Does the same for timers that are refreshed, which the mock of Node.js 20 does not do. Returns what lets time pass. */
function controlRefreshedTimers({ mock }: TestContext): (ms: number) => Promise<void> {
  const due = new Map<object, { readonly run: () => void; readonly atMs: number }>()
  let passedMs = 0
  mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
    const timer = { refresh: () => due.set(timer, { run, atMs: passedMs + ms }) }
    timer.refresh()
    return timer
  })
  mock.method(globalThis, 'clearTimeout', (timer: object) => due.delete(timer))
  return async (ms) => {
    for (const endMs = passedMs + ms; passedMs < endMs; await turn()) {
      passedMs++
      for (const [timer, { run, atMs }] of [...due]) if (atMs <= passedMs && due.delete(timer)) run()
    }
  }
}

describe('the limiter', () => {
  test('sends a check that leads the one after it in the same batch, also where that would be full', async () => {
    const store = controlledStore(1)
    const { limiter } = limiterOf(store)
    // The first 32 are sent at once.
    const answers = Array.from({ length: 32 + 511 }, (_, index) => limiter.check(checkOf(`${index}`), NOW_MS))
    answers.push(limiter.check(checkOf('address'), NOW_MS, 0, 1), limiter.check(checkOf('header'), NOW_MS))
    answers.push(limiter.check(checkOf('next address'), NOW_MS, 0, 1), limiter.check(checkOf('next'), NOW_MS))
    await Promise.all(answers)
    assert.deepEqual(
      store.batches.map((batch) => [batch.length, ...batch.slice(-2)]),
      [
        [32, '30', '31'],
        [511, '541', '542'],
        [4, 'next address', 'next'],
      ],
    )
    assert.deepEqual(store.batches[2]?.slice(0, 2), ['address', 'header'])
  })

  test('knows no decision where no refusal is remembered, and asks no store for it', async () => {
    const store = controlledStore(1)
    const { limiter } = limiterOf(store)
    assert.equal(limiter.decideLocally(checkOf('a'), NOW_MS), undefined)
    assert.deepEqual(store.batches, [])
  })

  test('sends the checks of one turn as one batch, and those that arrive meanwhile as the next', async () => {
    const store = controlledStore(1)
    const { limiter } = limiterOf(store)
    store.held = true
    const first = ['a', 'b', 'a'].map((key) => limiter.check(checkOf(key), NOW_MS))
    await turn()
    const second = ['c', 'a'].map((key) => limiter.check(checkOf(key), NOW_MS))
    await turn()
    assert.deepEqual(store.batches, [['a', 'b', 'a']])
    store.letGo()
    const decisions = await Promise.all([...first, ...second])
    assert.deepEqual(store.batches, [
      ['a', 'b', 'a'],
      ['c', 'a'],
    ])
    assert.deepEqual(
      decisions.map(({ count }) => count),
      [1, 1, 2, 1, 3],
    )
  })

  test('sends no batch of more than 512 checks', async () => {
    const store = controlledStore(1)
    const { limiter } = limiterOf(store)
    await Promise.all(Array.from({ length: 1_100 }, (_, index) => limiter.check(checkOf(`k${index}`), NOW_MS)))
    assert.deepEqual(
      store.batches.map(({ length }) => length),
      [32, 512, 512, 44],
    )
  })

  test('sends 32 checks before the turn is over, but none without the one that it leads', async () => {
    const store = controlledStore(3)
    const { limiter } = limiterOf(store)
    const check = (count: number, leads = 0) => {
      return Array.from({ length: count }, () => limiter.check(checkOf('k'), NOW_MS, 0, leads))
    }
    const first = [...check(31), ...check(1, 1)]
    assert.deepEqual(store.batches, [])
    const second = check(1)
    assert.deepEqual(
      store.batches.map(({ length }) => length),
      [33],
    )
    await Promise.all([...first, ...second, ...check(3)])
    assert.deepEqual(
      store.batches.map(({ length }) => length),
      [33, 3],
    )
  })

  test('has no more batches under way than the store wants', async () => {
    const store = controlledStore(2)
    const { limiter } = limiterOf(store)
    store.held = true
    const answers: (Decision | Promise<Decision>)[] = []
    for (let index = 0; index < 5; index++) {
      answers.push(limiter.check(checkOf(`k${index}`), NOW_MS))
      await turn()
    }
    assert.equal(store.batches.length, 2)
    store.letGo()
    await Promise.all(answers)
  })

  test('asks a store in memory at once, without a promise', () => {
    const limiter = createSafeLimiter({
      store: new MemoryStore(),
      fallback: PASSES,
      now: () => NOW_MS,
      timeoutMs: 1_000,
      log: { error: () => assert.fail(), info: () => assert.fail() },
    })
    const decision = limiter.check(checkOf('a'), NOW_MS)
    assert.ok(!(decision instanceof Promise))
    assert.equal(decision.count, 1)
  })

  test('goes on without a store that fails, probes it once a second, and says so twice', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const { limiter, lines, pass } = limiterOf(store)
    store.failure = new Error('connection refused')
    assert.equal((await limiter.check(checkOf('a'), NOW_MS)).count, 0)
    assert.equal(limiter.storeIsDown, true)
    for (let ms = 0; ms < 1_000; ms += 100) assert.equal((await limiter.check(checkOf('a'), NOW_MS + ms)).count, 0)
    assert.equal(store.batches.length, 1)
    await pass(t, 1_000)
    assert.equal(store.batches.length, 2)
    store.failure = undefined
    await pass(t, 1_000)
    assert.equal(limiter.storeIsDown, false)
    assert.equal((await limiter.check(checkOf('a'), NOW_MS + 2_000)).count, 1, 'probes use nothing')
    assert.deepEqual(lines, [
      'error Rate limit store failed: onStoreError decides until it answers again (tried once a second)',
      'info Rate limit store answers again, after 2 s',
    ])
  })

  test('notices without a request that a store answers again, and probes nothing after it was closed', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const { limiter, pass } = limiterOf(store)
    store.failure = new Error('connection refused')
    await limiter.check(checkOf('a'), NOW_MS)
    await pass(t, 3_000)
    assert.equal(store.batches.length, 4)
    store.failure = undefined
    await pass(t, 1_000)
    assert.equal(limiter.storeIsDown, false)
    await pass(t, 10_000)
    assert.equal(store.batches.length, 5)

    store.failure = new Error('connection refused')
    await limiter.check(checkOf('a'), NOW_MS)
    await limiter.close()
    await pass(t, 60_000)
    assert.equal(store.batches.length, 6)
  })

  test('sends one probe at a time, also where the store does not answer it', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const { limiter, pass } = limiterOf(store, 600_000)
    store.failure = new Error('connection refused')
    await limiter.check(checkOf('a'), NOW_MS)
    store.held = true
    await pass(t, 20_000)
    assert.equal(store.batches.length, 2)
    store.failure = undefined
    store.letGo()
    await turn()
    assert.equal(limiter.storeIsDown, false)
  })

  test('probes with the last check: one that fails for a reason of its own is no outage without an end', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const memory = new MemoryStore()
    const { limiter, pass } = limiterOf({
      ...store,
      check(checks, nowMs) {
        if (checks.some(({ key }) => key === 'broken')) throw new Error('no number')
        return memory.check(checks, nowMs)
      },
    })
    await limiter.check(checkOf('broken'), NOW_MS)
    await limiter.check(checkOf('a'), NOW_MS)
    await pass(t, 1_000)
    assert.equal(limiter.storeIsDown, false)
  })

  test('tries a store that soon fails again at longer intervals, and logs it as one outage', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const { limiter, lines, clock, pass } = limiterOf(store)
    const failure = new Error('connection refused')
    for (const intervalMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      store.failure = failure
      await limiter.check(checkOf('a'), clock.now())
      assert.equal(limiter.storeIsDown, true)
      store.failure = undefined
      await pass(t, intervalMs - 500)
      assert.equal(limiter.storeIsDown, true, `${intervalMs} ms`)
      await pass(t, 500)
      assert.equal(limiter.storeIsDown, false, `${intervalMs} ms`)
    }
    const logged = [
      'error Rate limit store failed: onStoreError decides until it answers again (tried once a second)',
      'info Rate limit store answers again, after 1 s',
      'error Rate limit store failed: onStoreError decides until it answers again (tried every 2 s, since it soon failed again)',
    ]
    assert.deepEqual(lines, logged)
    await pass(t, 10_000)
    logged.push('info Rate limit store answers again, after 90 s')
    assert.deepEqual(lines, logged)
    store.failure = failure
    await limiter.check(checkOf('a'), clock.now())
    assert.equal(lines.at(-1), logged[0], 'a later outage is a new one')
  })

  test('lets no check wait longer than the time-out, those behind a stuck batch included', async () => {
    const store = controlledStore(1)
    const { limiter, lines } = limiterOf(store, 20)
    store.held = true
    const stuck = limiter.check(checkOf('a'), NOW_MS)
    await turn()
    const behind = limiter.check(checkOf('b'), NOW_MS)
    assert.deepEqual(
      (await Promise.all([stuck, behind])).map(({ count }) => count),
      [0, 0],
    )
    assert.equal(lines.length, 1)
    store.letGo()
    await turn()
    assert.equal(limiter.storeIsDown, true, 'an answer that comes too late is no recovery')
  })

  test('counts the wait behind slow batches in the time-out of a request, and asks the store no more for it', async (t) => {
    const pass = controlRefreshedTimers(t)
    const store = controlledStore(1)
    const { limiter, lines } = limiterOf(store, 100)
    const answered: string[] = []
    const ask = async (key: string, waitedMs?: number) => {
      const { count } = await limiter.check(checkOf(key), NOW_MS, waitedMs)
      answered.push(`${key} ${count}`)
    }
    const answerOne = async () => {
      store.letGo()
      store.held = true
      await pass(1)
    }
    store.held = true
    void ask('first', 0)
    await turn()
    for (const waitedMs of [0, 50, undefined]) void ask(`behind ${waitedMs}`, waitedMs)
    await pass(52)
    assert.deepEqual(answered.splice(0), ['behind 50 0'])
    await pass(40)
    await answerOne()
    assert.deepEqual(answered.splice(0), ['first 1'])
    await pass(10)
    assert.deepEqual(answered.splice(0), ['behind 0 0'], 'although its batch may take 90 ms more')
    await answerOne()
    assert.deepEqual(answered.splice(0), ['behind undefined 1'], 'no request waits for it')
    assert.deepEqual(store.batches, [['first'], ['behind 0', 'behind undefined']])
    assert.deepEqual([limiter.storeIsDown, lines], [false, []], 'a store that answers has not failed')
  })

  test('takes what became of an older batch for no news: neither for the end of an outage nor for a new one', async (t) => {
    const memory = new MemoryStore()
    const settle: ((failure?: Error) => void)[] = []
    const store = {
      concurrency: 3,
      check: (checks: readonly Check[], nowMs: number) =>
        new Promise<readonly Decision[]>((resolve, reject) => {
          settle.push((failure) => (failure === undefined ? resolve(memory.check(checks, nowMs)) : reject(failure)))
        }),
      settle: () => undefined,
      reset: () => undefined,
      resetAll: () => undefined,
    }
    controlTimers(t)
    const { limiter, lines, pass } = limiterOf(store)
    const broken = new Error('connection reset')
    async function ask(atMs: number) {
      const decision = limiter.check(checkOf('a'), NOW_MS + atMs)
      await turn()
      return { decision }
    }

    await ask(0)
    await ask(0)
    await ask(0)
    settle[0]?.(broken)
    await turn()
    settle[1]?.()
    await turn()
    assert.equal(limiter.storeIsDown, true, 'it was asked before the other one failed')

    await pass(t, 1_000)
    settle[3]?.()
    await turn()
    assert.equal(limiter.storeIsDown, false)
    const { decision } = await ask(2_000)
    settle[2]?.(broken)
    await turn()
    assert.equal(limiter.storeIsDown, false, 'it was asked before the outage ended')
    settle[4]?.()
    assert.equal((await decision).count, 2)
    assert.equal(lines.length, 2)
  })

  test('refuses the keys that the store had refused while it fails, also when the refusals cannot be verified', async () => {
    const store = controlledStore(1)
    const poll = { canLook: true }
    const limiter = createSafeLimiter({
      store,
      fallback: fallbackFor('allow', {
        decide: () => assert.fail(),
        settle: () => undefined,
        reset: () => undefined,
        resetAll: () => undefined,
      }),
      refusalsPoll: {
        isFresh: () => poll.canLook,
        close: () => undefined,
      },
      now: () => NOW_MS,
      timeoutMs: 1_000,
      log: { error: () => undefined, info: () => undefined },
    })
    for (let count = 1; count <= 6; count++) await limiter.check(checkOf('blocked'), NOW_MS)

    poll.canLook = false
    store.failure = new Error('connection refused')
    assert.equal((await limiter.check(checkOf('blocked'), NOW_MS)).allowed, false, 'when the failure is noticed')
    assert.equal((await limiter.check(checkOf('blocked'), NOW_MS)).allowed, false, 'and afterwards')
    assert.equal((await limiter.check(checkOf('stranger'), NOW_MS)).allowed, true)
  })

  test('takes an event loop that was blocked for no outage of the store', async () => {
    const store = controlledStore(1)
    const { limiter, lines } = limiterOf(store, 40)
    store.held = true
    const answer = limiter.check(checkOf('a'), NOW_MS)
    await turn()
    setTimeout(() => store.letGo())
    for (const startMs = performance.now(); performance.now() - startMs < 100; );
    assert.equal((await answer).count, 1)
    assert.deepEqual(lines, [])
  })

  test('gives a store that answers again the permits back that it may hold, unless their period is over', async (t) => {
    controlTimers(t)
    const store = controlledStore(1)
    const settled: number[] = []
    const settle = (settlements: readonly Settlement[]) =>
      void settled.push(...settlements.map(({ permit = -1 }) => permit))
    const { limiter, pass } = limiterOf({ ...store, settle, check: (checks, nowMs) => store.check(checks, nowMs) })
    const take = (permit: number, periodMs = 60_000) =>
      ({ key: 'a', policy: { algorithm: 'concurrency', limit: 5, periodMs }, cost: 1, permit }) as const
    const [held, free, failed, unasked] = [take(1), take(2, 1_000), take(3), take(4)]
    await Promise.all([limiter.check(held, NOW_MS), limiter.check(free, NOW_MS)])
    store.failure = new Error('connection reset')
    await limiter.check(failed, NOW_MS)
    await limiter.check(unasked, NOW_MS)
    await Promise.all([held, free, failed, unasked].map((taken) => limiter.settle(taken, NOW_MS)))
    await limiter.settle({ ...take(5), policy: POLICY }, NOW_MS)
    assert.deepEqual(settled, [])
    store.failure = undefined
    await pass(t, 1_000)
    assert.equal(limiter.storeIsDown, false)
    assert.deepEqual(settled, [1, 3, 4], 'to give back what was not taken changes nothing')
  })

  test('gives back what a batch takes after its time-out, as soon as its requests have ended', long(), async () => {
    const store = controlledStore(8)
    const settled: number[] = []
    const settle = (settlements: readonly Settlement[]) =>
      void settled.push(...settlements.map(({ permit = -1 }) => permit))
    const { limiter } = limiterOf({ ...store, settle, check: (checks, nowMs) => store.check(checks, nowMs) }, 20)
    const take = (permit: number) =>
      ({ key: 'a', policy: { algorithm: 'concurrency', limit: 5, periodMs: 60_000 }, cost: 1, permit }) as const
    const [ended, lasting] = [take(1), take(2)]
    store.held = true
    await Promise.all([limiter.check(ended, NOW_MS), limiter.check(lasting, NOW_MS)])
    assert.equal(limiter.storeIsDown, true)
    store.held = false
    await eventually('a probe is answered', () => !limiter.storeIsDown)
    await limiter.settle(ended, NOW_MS + 1_000)
    assert.deepEqual(settled, [1], 'before the store has taken it')
    store.letGo()
    await turn()
    assert.deepEqual(settled, [1, 1])
    await limiter.settle(lasting, NOW_MS + 2_000)
    assert.deepEqual(settled, [1, 1, 2])
  })
})
