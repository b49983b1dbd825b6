/** What the store refused is remembered until its wait ends: same answers, no store call. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Check, type Decision, type Policy, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { decideWithoutStore } from '../../src/limiter/fallback.js'
import { parseRate, toPolicy, toReservingPolicy } from '../../src/limiter/rate.js'
import { createSafeLimiter } from '../../src/limiter/safe-limiter.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { createReference } from '../conformance/traces.js'

const NOW_MS = 1_705_161_615_000

/** A limiter over a store that is asked in batches, and how many checks the store was asked. */
function setUp() {
  const memory = new MemoryStore()
  const seenChecks: Check[] = []
  let held: Promise<void> | undefined
  let fails = false
  const store = {
    concurrency: 2,
    async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
      seenChecks.push(...checks)
      if (fails) throw new Error('no store')
      const decisions = memory.check(checks, nowMs)
      await held
      return decisions
    },
    reset: (keys: readonly string[]) => memory.reset(keys),
    resetAll: () => undefined,
  }
  const fallback = {
    decide: (check: Check) => decideWithoutStore(true, check),
    settle: () => undefined,
    reset: () => undefined,
    resetAll: () => undefined,
  }
  const log = { error: () => assert.ok(fails), info: () => undefined }
  let looks = 0
  const refusalsPoll = {
    isFresh() {
      looks++
      return true
    },
    close: () => undefined,
  }
  const limiter = createSafeLimiter({ store, fallback, refusalsPoll, now: () => NOW_MS, timeoutMs: 10_000, log })
  return {
    limiter,
    seenChecks,
    fail(whether: boolean) {
      fails = whether
    },
    /** How often it was asked whether refusals still hold. */
    looks: () => looks,
    /** Keeps back the store's answers until the promise resolves. */
    hold(until: Promise<void>) {
      held = until
    },
  }
}

function checkOf(policy: Partial<Policy> = {}, cost = 1, key = 'a'): Check {
  return { key, policy: { algorithm: 'fixed_window', limit: 2, periodMs: 60_000, ...policy }, cost }
}

describe('a limiter that was refused', () => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`answers a flood as the store would, without asking it until the wait ends: ${algorithm}`, async () => {
      const { limiter, seenChecks } = setUp()
      const reference = createReference()
      const check = checkOf({ algorithm })
      let waitMs = 0
      for (let ms = 0; waitMs === 0 || ms < waitMs; ms += 250) {
        const decision = await limiter.check(check, NOW_MS + ms)
        assert.deepEqual(decision, reference(check, NOW_MS + ms), `after ${ms} ms`)
        if (waitMs === 0 && decision.retryAfterMs) waitMs = ms + decision.retryAfterMs
      }
      assert.equal(seenChecks.length, 3)
      assert.equal((await limiter.check(check, NOW_MS + waitMs)).allowed, true)
      assert.equal(seenChecks.length, 4)
    })

    test(`answers what uses nothing as the store would, as long as that is refused: ${algorithm}`, async () => {
      const { limiter, seenChecks } = setUp()
      const reference = createReference()
      const look = checkOf({ algorithm }, 0)
      for (let times = 0; times < 2; times++) {
        await limiter.check(checkOf({ algorithm }), NOW_MS)
        reference(checkOf({ algorithm }), NOW_MS)
      }
      for (const ms of [0, 1, 250, 5_000]) {
        assert.deepEqual(await limiter.check(look, NOW_MS + ms), reference(look, NOW_MS + ms), `after ${ms} ms`)
      }
      assert.equal(seenChecks.length, 3)
      assert.equal((await limiter.check(checkOf({ algorithm }), NOW_MS + 120_000)).allowed, true)
      const never = checkOf({ algorithm, limit: 0 }, 0, 'never')
      for (const ms of [0, 1]) {
        assert.deepEqual(await limiter.check(never, NOW_MS + ms), reference(never, NOW_MS + ms))
      }
    })

    test(`asks the store when the rule was changed, and obeys: ${algorithm}`, async () => {
      const { limiter } = setUp()
      for (let times = 0; times < 4; times++) await limiter.check(checkOf({ algorithm }), NOW_MS)
      assert.equal((await limiter.check(checkOf({ algorithm, limit: 50 }), NOW_MS)).allowed, true)
      assert.equal((await limiter.check(checkOf({ algorithm, periodMs: 3_600_000 }), NOW_MS)).allowed, true)
    })

    test(`obeys a reset at once: ${algorithm}`, async () => {
      const { limiter } = setUp()
      for (let times = 0; times < 4; times++) await limiter.check(checkOf({ algorithm }), NOW_MS)
      await limiter.reset(['a'])
      assert.equal((await limiter.check(checkOf({ algorithm }), NOW_MS)).allowed, true)
    })
  }

  for (const algorithm of RATE_ALGORITHMS) {
    test(`answers a refused reservation for a second, and lets a smaller one ask the store: ${algorithm}`, async () => {
      const { limiter, seenChecks } = setUp()
      const reference = createReference()
      const policy = toReservingPolicy(algorithm, parseRate('10/h'))
      const ask = async (cost: number, ms: number) => {
        const check = { key: 'a', policy, cost }
        const [decision, expected] = [await limiter.check(check, NOW_MS + ms), reference(check, NOW_MS + ms)]
        // What other requests use meanwhile is seen after a second.
        if (cost !== 7) assert.deepEqual(decision, expected)
        return decision
      }
      await ask(8, 0)
      const [first, again, smaller] = [await ask(7, 0), await ask(7, 900), await ask(2, 950)]
      assert.deepEqual(
        [first, again, smaller].map(({ allowed, count, remaining }) => [allowed, count, remaining]),
        [
          [false, 15, 2],
          [false, 15, 2],
          [true, 10, 0],
        ],
      )
      assert.equal(again.retryAfterMs, Number(first.retryAfterMs) - 900)
      assert.deepEqual(
        seenChecks.map(({ cost }) => cost),
        [8, 7, 2],
      )
      await ask(7, 1_000)
      assert.equal(seenChecks.length, 4)
      await ask(0, 1_010)
      await ask(0, 1_020)
      assert.equal(seenChecks.length, 5)
    })

    test(`answers a flood against several windows as the store would: ${algorithm}`, async () => {
      const { limiter, seenChecks } = setUp()
      const reference = createReference()
      const check = { key: 'a', policy: toPolicy(algorithm, parseRate('3/s, 5/m, 90/2m')), cost: 1 }
      let requests = 0
      for (let ms = 0; ms < 120_000; ms += 250) {
        const [decision, expected] = [await limiter.check(check, NOW_MS + ms), reference(check, NOW_MS + ms)]
        requests++
        // What the other windows have left is as of the store's answer.
        assert.deepEqual({ ...decision, windows: [] }, { ...expected, windows: [] }, `after ${ms} ms`)
        assert.deepEqual(
          decision.windows?.map(({ limit }) => limit),
          [3, 5, 90],
        )
      }
      // Fixed windows count what one of them refuses, so that only a refusal by the last to end is remembered.
      assert.ok(
        seenChecks.length < requests / (algorithm === 'fixed_window' ? 1 : 4),
        `${seenChecks.length} of ${requests}`,
      )
    })
  }

  test('a window that outlives a refusal counts what it refused', async () => {
    const { limiter } = setUp()
    const reference = createReference()
    const check = { key: 'a', policy: toPolicy('fixed_window', parseRate('3/h, 5/7m')), cost: 1 }
    for (let ms = 0; ms < 7_200_000; ms += 10_000) {
      const [decision, expected] = [await limiter.check(check, NOW_MS + ms), reference(check, NOW_MS + ms)]
      assert.equal(decision.allowed, expected.allowed, `after ${ms} ms`)
    }
  })

  test('does not remember a refusal by one of several windows when another window was edited', async () => {
    const { limiter } = setUp()
    const ask = (rate: string) =>
      limiter.check({ key: 'a', policy: toPolicy('sliding_window', parseRate(rate)), cost: 1 }, NOW_MS)
    for (let times = 0; times < 3; times++) await ask('9/s, 2/m')
    assert.equal((await ask('9/s, 2/m')).allowed, false)
    assert.equal((await ask('9/s, 3/m')).allowed, true)
  })

  test('does not remember what was asked before a reset and answered after it', async () => {
    const { limiter, hold, seenChecks } = setUp()
    for (let times = 0; times < 2; times++) await limiter.check(checkOf(), NOW_MS)
    let letGo = () => {}
    hold(new Promise((resolve) => (letGo = resolve)))
    const refused = limiter.check(checkOf(), NOW_MS)
    await turn()
    assert.equal(seenChecks.length, 3)
    await limiter.reset(['a'])
    letGo()
    assert.equal((await refused).allowed, false)
    assert.equal((await limiter.check(checkOf(), NOW_MS)).allowed, true)
  })

  test('asks the store when the clock was set back, which forgets what was counted far ahead', async () => {
    const { limiter, seenChecks } = setUp()
    for (const aheadMs of [30 * 86_400_000, 60_000, 0]) {
      for (let count = 0; count < 4; count++) await limiter.check(checkOf(), NOW_MS + aheadMs)
    }
    assert.equal(seenChecks.length, 3 + 3 + 1, 'the window of a minute ahead goes on')
    assert.equal((await limiter.check(checkOf(), NOW_MS)).allowed, false)
  })

  test('asks the store for other keys, for other costs of a bucket, and for a look', async () => {
    const { limiter, seenChecks } = setUp()
    const bucket = { algorithm: 'token_bucket', limit: 5 } as const
    await limiter.check(checkOf(bucket, 3), NOW_MS)
    await limiter.check(checkOf(bucket, 3), NOW_MS)
    assert.equal((await limiter.check(checkOf(bucket), NOW_MS)).allowed, true)
    assert.equal((await limiter.check(checkOf(bucket, 1, 'b'), NOW_MS)).count, 1)
    assert.equal((await limiter.check(checkOf(bucket, 0), NOW_MS)).count, 4)
    assert.equal(seenChecks.length, 5)
  })

  test('counts costs on in an exhausted fixed window, and says when waiting does not help', async () => {
    const { limiter, seenChecks } = setUp()
    for (let times = 0; times < 3; times++) await limiter.check(checkOf(), NOW_MS)
    const { count, retryAfterMs } = await limiter.check(checkOf({}, 2), NOW_MS)
    assert.deepEqual([count, retryAfterMs], [5, 45_000])
    assert.equal((await limiter.check(checkOf({}, 3), NOW_MS)).retryAfterMs, null)
    assert.equal(seenChecks.length, 3)
  })

  test('asks the store again after an outage, in which it may have lost its counters', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { limiter, seenChecks, fail } = setUp()
    for (let times = 0; times < 4; times++) await limiter.check(checkOf(), NOW_MS)
    fail(true)
    await limiter.check(checkOf({}, 1, 'b'), NOW_MS)
    assert.equal((await limiter.check(checkOf(), NOW_MS)).allowed, false, 'meanwhile the refusal holds')
    fail(false)
    t.mock.timers.tick(1_000)
    while (limiter.storeIsDown) await turn()
    const before = seenChecks.length
    assert.equal((await limiter.check(checkOf(), NOW_MS + 1_000)).allowed, false)
    assert.equal(seenChecks.length, before + 1)
  })

  test('goes on counting where it left off when the store has to be asked again in the same window', async () => {
    const { limiter } = setUp()
    const counts: number[] = []
    for (let times = 0; times < 8; times++) {
      if (times === 6) limiter.forgetAll()
      counts.push((await limiter.check(checkOf(), NOW_MS)).count)
    }
    assert.deepEqual(counts, [1, 2, 3, 4, 5, 6, 7, 8])
  })

  for (const algorithm of RATE_ALGORITHMS) {
    test(`remembers a limit of 0, which no wait ends: ${algorithm}`, async () => {
      const { limiter, seenChecks } = setUp()
      const reference = createReference()
      const check = checkOf({ algorithm, limit: 0 })
      for (let times = 0; times < 5; times++) {
        assert.deepEqual(await limiter.check(check, NOW_MS + times), reference(check, NOW_MS + times))
      }
      assert.equal(seenChecks.length, 1)
      assert.equal((await limiter.check(checkOf({ algorithm, limit: 9 }), NOW_MS)).allowed, true)
    })
  }

  test('does not ask whether refusals still hold when all of them are over', async () => {
    const { limiter, looks } = setUp()
    const refuse = async (key: string, nowMs: number) => {
      for (let times = 0; times < 3; times++) await limiter.check(checkOf({}, 1, key), nowMs)
    }
    await refuse('a', NOW_MS)
    await refuse('b', NOW_MS + 60_000)
    const before = looks()
    await limiter.check(checkOf({}, 1, 'b'), NOW_MS + 60_001)
    assert.equal(looks(), before + 1)
    await limiter.check(checkOf({}, 1, 'b'), NOW_MS + 180_000)
    await limiter.check(checkOf({}, 1, 'c'), NOW_MS + 180_000)
    assert.equal(looks(), before + 2, 'once for b, which came back, and then for no key')
  })

  test('keeps no more than 10,000 refusals, and forgets all of them on request', async () => {
    const { limiter, seenChecks } = setUp()
    const check = (index: number) => limiter.check(checkOf({ limit: 0 }, 1, `k${index}`), NOW_MS)
    await Promise.all(Array.from({ length: 10_001 }, (_, index) => check(index)))
    assert.equal(seenChecks.length, 10_001)
    await check(10_000)
    assert.equal(seenChecks.length, 10_001)
    await check(0)
    assert.equal(seenChecks.length, 10_002)
    limiter.forgetAll()
    await check(10_000)
    assert.equal(seenChecks.length, 10_003)
  })
})
