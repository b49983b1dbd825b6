/** What is given back of checks never makes more room than if these had not been. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { type Decision, RATE_ALGORITHMS, type RateAlgorithm, type Settlement } from '../../src/limiter/algorithm.js'
import { type BucketCounter, checkBucket, settleBucket, TAKEN_MODULUS } from '../../src/limiter/bucket.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import { settleWindows, WINDOW_CHECKS, type WindowsCounter } from '../../src/limiter/windows.js'
import { fc } from '../support/properties.js'

const START_MS = Date.parse('2028-02-29T23:59:00Z')

const steps = fc.record({
  waitMs: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(0, 0, 1, 2, 7) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 900 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 90_000 }) },
  ),
  /** A check whose request goes on, one that is given back later, or what is given back of one of those. */
  kind: fc.constantFrom('kept', 'returned', 'returned', 'settlement', 'settlement'),
  cost: fc.integer({ min: 0, max: 5 }),
  /** The factor of a charge, which may lead into debt; 0 for a check that is none. */
  charges: fc.constantFrom(0, 0, 0, 1, 4),
  which: fc.nat(),
})
const traces = fc.array(steps, { minLength: 20, maxLength: 120, size: 'max' })

/** Returns how much is in use of a bucket, in parts of a unit. */
function level([numbers = []]: WindowsCounter): number {
  const [periodMs = 0, , , used = 0, fraction = 0] = numbers
  return used * periodMs + fraction
}

function proveTrace(
  algorithm: RateAlgorithm,
  rate: string,
  trace: typeof traces extends fc.Arbitrary<infer T> ? T : never,
) {
  const policy = toPolicy(algorithm, parseRate(rate))
  const isBucket = algorithm.endsWith('bucket')
  const ask = (counter: WindowsCounter, cost: number, nowMs: number, charges = false) =>
    WINDOW_CHECKS[algorithm](counter, policy, cost, nowMs, charges)
  let [actual, without]: [WindowsCounter, WindowsCounter] = [[], []]
  const outstanding: Settlement[] = []
  let [nowMs, drainedMs] = [START_MS, 0]
  for (const { waitMs, kind, cost: least, charges: factor, which } of trace) {
    const [charges, cost] = [factor > 0, factor > 0 ? factor * least : least]
    nowMs += waitMs
    if (kind === 'settlement') {
      const [settlement] = outstanding.splice(which % Math.max(1, outstanding.length), 1)
      if (settlement === undefined) continue
      drainedMs += nowMs - (settlement.checkedMs ?? 0)
      actual = settleWindows(actual, settlement)
    } else {
      const { counter, decision } = ask(actual, cost, nowMs, charges)
      actual = counter
      if (decision.allowed && kind === 'returned') {
        outstanding.push(toSettlement({ key: '', policy, cost }, decision, nowMs))
      } else if (decision.allowed || algorithm === 'fixed_window') {
        const expected = ask(without, cost, nowMs, charges)
        without = expected.counter
        assert.ok(expected.decision.allowed || !decision.allowed, 'admits nothing that it would have refused')
      }
    }
    const [a, b] = [actual, without].map((counter) => ask(counter, 0, nowMs)) as [
      { counter: WindowsCounter; decision: Decision },
      { counter: WindowsCounter; decision: Decision },
    ]
    const left = ({ decision }: typeof a) => (decision.windows ?? [decision]).map(({ remaining }) => remaining)
    for (const [index, remaining] of left(a).entries()) {
      assert.ok(remaining <= (left(b)[index] ?? 0), `leaves ${remaining}, not ${left(b)[index]}`)
    }
    if (outstanding.length > 0) continue
    if (!isBucket) assert.deepEqual(left(a), left(b), 'costs nothing')
    else if (drainedMs === 0 || policy.windows === undefined) {
      assert.ok(level(a.counter) - level(b.counter) <= policy.limit * drainedMs, 'costs no more than has drained')
    }
  }
}

function proveTraces(t: TestContext, algorithm: RateAlgorithm, rate: string): void {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  fc.assert(
    fc.property(traces, (trace) => proveTrace(algorithm, rate, trace)),
    { seed, numRuns: 300 },
  )
}

describe('what a check took and its client did not use, given back', () => {
  for (const algorithm of RATE_ALGORITHMS) {
    const month = algorithm === 'fixed_window' ? ['20/m, 60/month'] : []
    for (const rate of ['6/m', '20/s', '3000/s', '7/10s, 20/m, 40/h', ...month]) {
      test(`makes no more room than if it had not been, and costs nothing: ${algorithm} of ${rate}`, (t) =>
        proveTraces(t, algorithm, rate))
    }
  }
})

describe('a bucket', () => {
  const policy = { algorithm: 'token_bucket', limit: 10, periodMs: 10_000 } as const

  function take(counter: BucketCounter | undefined, cost: number, atMs: number) {
    const checked = checkBucket(counter, policy, cost, START_MS + atMs)
    const mark = checked.decision.taken ?? Number.NaN
    return { counter: checked.counter, settlement: { cost, mark, checkedMs: START_MS + atMs, limit: policy.limit } }
  }

  test('gives back nothing of what has drained, although more was taken before and given back since', () => {
    const first = take(undefined, 5, 0)
    const second = take(first.counter, 5, 0)
    const returned = { ...second.counter, ...settleBucket(second.counter, first.settlement) }
    assert.deepEqual([returned.used, returned.fraction], [5, 0])
    const other = take(returned, 3, 5_900)
    assert.deepEqual(settleBucket(other.counter, second.settlement), { used: 3, fraction: 0 })
  })

  test('gives back nothing at another limit than it drains at, unless it has surely not been empty since', () => {
    const taken = take(undefined, 4, 0)
    const raised = checkBucket(taken.counter, { ...policy, limit: 20 }, 1, START_MS + 1_000).counter
    assert.deepEqual([raised.used, raised.fraction], [4, 0])
    assert.deepEqual(settleBucket(raised, taken.settlement), { used: 4, fraction: 0 })
    const fuller = checkBucket(raised, { ...policy, limit: 20 }, 1, START_MS + 1_000).counter
    assert.deepEqual(settleBucket(fuller, { ...taken.settlement, cost: 2 }), { used: 3, fraction: 0 })
  })

  test('counts what is taken from 0 again, and knows before and after', () => {
    const nearly = { ...take(undefined, 1, 0).counter, used: 0, taken: TAKEN_MODULUS - 3 }
    const first = take(nearly, 4, 0)
    assert.equal(first.counter.taken, 1)
    const second = take(first.counter, 2, 0)
    assert.equal(settleBucket(second.counter, first.settlement).used, 2)
  })
})
