import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALGORITHMS, type Check, type Decision } from '../../src/limiter/algorithm.js'
import type { BatchStore } from '../../src/limiter/batch-store.js'
import { parseRate, toPolicy, toReservingPolicy } from '../../src/limiter/rate.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { validatedStore } from '../../src/limiter/validated-store.js'

const NOW_MS = 1_705_161_615_000
const NO_NUMBERS = [Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, '1', undefined, 1n]

/** A store whose decisions are changed before it answers, at once or later. */
function answering(change: (decision: Decision) => object, isLate: boolean): BatchStore {
  const memory = new MemoryStore()
  const check = (checks: readonly Check[], nowMs: number) => {
    const answers = memory.check(checks, nowMs).map((decision) => change(decision) as Decision)
    return isLate ? Promise.resolve(answers) : answers
  }
  return validatedStore({ concurrency: 1, check, reset: () => undefined })
}

/** The checks of all kinds: those of requests, questions, charges and permits. */
const CHECKS: readonly Check[] = [
  ...ALGORITHMS.map((algorithm) => ({
    key: algorithm,
    policy: toPolicy(algorithm, parseRate('5/m')),
    cost: 1,
    permit: 1,
  })),
  { key: 'question', policy: toPolicy('token_bucket', parseRate('5/m')), cost: 0 },
  { key: 'charge', policy: toReservingPolicy('leaky_bucket', parseRate('5/m, 9/h')), cost: 99, charges: true },
  { key: 'month', policy: toPolicy('fixed_window', parseRate('5/m, 9/month')), cost: 1 },
]

async function ask(store: BatchStore, check: Check): Promise<unknown> {
  return store.check([check], NOW_MS)
}

test('right answers to every kind of check pass', async () => {
  for (const isLate of [false, true]) {
    const store = answering((decision) => decision, isLate)
    for (const check of CHECKS) assert.ok(await ask(store, check), check.key)
  }
})

test('a number that is none is a failure, in every kind of check, of a decision and of each of its windows', async () => {
  for (const isLate of [false, true]) {
    for (const field of ['count', 'limit', 'remaining', 'resetMs', 'retryAfterMs'] as const) {
      for (const wrong of NO_NUMBERS) {
        // Times may be parts of a millisecond.
        if (wrong === 1.5 && field.endsWith('Ms')) continue
        const store = answering((decision) => ({ ...decision, [field]: wrong }), isLate)
        for (const check of CHECKS) {
          await assert.rejects(ask(store, check), RangeError, `${check.key}: ${field} ${String(wrong)}`)
        }
        if (field === 'count') continue
        const windows = answering(
          ({ windows, ...decision }) => ({
            ...decision,
            ...(windows && {
              windows: windows.map((state, index) => (index === 1 ? { ...state, [field]: wrong } : state)),
            }),
          }),
          isLate,
        )
        for (const check of CHECKS.filter(({ policy }) => policy.windows !== undefined)) {
          await assert.rejects(ask(windows, check), RangeError, `${check.key}: windows ${field} ${String(wrong)}`)
        }
      }
    }
  }
})

test('a mark that is no number, which a settlement would count from, is a failure', async () => {
  for (const wrong of [Number.NaN, -1, 0.5, '1']) {
    const store = answering((decision) => ({ ...decision, taken: wrong }), true)
    for (const check of CHECKS) await assert.rejects(ask(store, check), /answered taken/, check.key)
  }
})

test('a charge that was refused, a decision that is none, and too few of them are failures', async () => {
  const refused = answering((decision) => ({ ...decision, allowed: false }), true)
  await assert.rejects(
    Promise.all(CHECKS.filter(({ charges }) => charges).map((check) => ask(refused, check))),
    /allowed: false/,
  )
  for (const wrong of [null, undefined, 7, 'yes']) {
    const store = answering(() => wrong as never, true)
    for (const check of CHECKS) await assert.rejects(ask(store, check), /in place of a decision/)
  }
  const none = validatedStore({ concurrency: 1, check: () => [], reset: () => undefined })
  for (const check of CHECKS) await assert.rejects(ask(none, check), /undefined in place of a decision/)
})

test('a number of resets that is none is a failure', async () => {
  for (const wrong of [Number.NaN, undefined, '7']) {
    const store = validatedStore({
      concurrency: 1,
      check: () => [],
      reset: () => undefined,
      resets: async () => wrong as never,
    })
    await assert.rejects(async () => store.resets?.(), /answered resets/)
  }
  const store = validatedStore({ concurrency: 1, check: () => [], reset: () => undefined, resets: async () => 7 })
  assert.equal(await store.resets?.(), 7)
})
