/** `Retry-After` is true: after that many seconds the same check gets in, and after one second less it does not. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { type Algorithm, type Check, RATE_ALGORITHMS, retryAfterSeconds } from '../../src/limiter/algorithm.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { DatabaseStore } from '../../src/limiter/stores/sql/database-store.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { forEachDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'

const START_MS = 1_705_161_615_123
const MEMORY_TRACES = 500
const DATABASE_TRACES = 20
/** Side by side, so that they wait for the database together. */
const TRACES_AT_ONCE = 5

const policies = fc.record({
  // Up to many per millisecond: the true wait is often far below a second.
  limit: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(0, 1_000, 100_000)),
  periodMs: fc.constantFrom(SECOND_MS, 7 * SECOND_MS, MINUTE_MS, HOUR_MS, 366 * DAY_MS),
})
const traces = fc.record({
  policy: policies,
  steps: fc.array(
    fc.record({
      waitMs: fc.oneof(
        { weight: 6, arbitrary: fc.integer({ min: 0, max: 300 }) },
        { weight: 1, arbitrary: fc.integer({ min: -5_000, max: 90_000 }) },
        // Onto the end of a window, and around it.
        { weight: 1, arbitrary: fc.constantFrom(SECOND_MS - 123, SECOND_MS - 124, SECOND_MS - 122, MINUTE_MS) },
      ),
      cost: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 14 }), fc.constantFrom(600, 60_000)),
      newPolicy: fc.oneof({ weight: 20, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: policies }),
    }),
    { minLength: 30, maxLength: 30, size: 'max' },
  ),
})
type Trace = typeof traces extends fc.Arbitrary<infer Value> ? Value : never

let traceNumber = 0

/** Answers how many refusals with a `Retry-After` were put to the proof. */
async function proveTrace(store: Store, algorithm: Algorithm, { policy: first, steps }: Trace): Promise<number> {
  const key = `trace ${traceNumber++}`
  let [policy, nowMs, proved] = [first, START_MS, 0]
  const ask = async (cost: number, atMs: number) => {
    const check: Check = { key, policy: { algorithm, ...policy }, cost }
    const [decision] = await store.check([check], atMs)
    assert.ok(decision !== undefined)
    return decision
  }
  for (const { waitMs, cost, newPolicy } of steps) {
    nowMs += waitMs
    policy = newPolicy ?? policy
    const decision = await ask(cost, nowMs)
    if (decision.allowed) continue
    const seconds = retryAfterSeconds(decision)
    if (seconds === null) {
      assert.ok(cost > policy.limit, 'waiting does not help only where nothing does')
      continue
    }
    proved++
    const when = `${seconds} s after a refusal of ${cost} of ${JSON.stringify(policy)} at ${nowMs}`
    assert.ok(Number.isInteger(seconds) && seconds >= 1, when)
    const early = await ask(cost, nowMs + (seconds - 1) * SECOND_MS)
    assert.equal(early.allowed, false, `a second less than ${when}`)
    const again = retryAfterSeconds(early)
    assert.equal(again, 1, `the answer a second before ${when}`)
    nowMs += seconds * SECOND_MS
    assert.equal((await ask(cost, nowMs)).allowed, true, when)
  }
  return proved
}

async function proveTraces(store: Store, algorithm: Algorithm, numRuns: number): Promise<void> {
  let proved = 0
  const several = fc.array(traces, { minLength: TRACES_AT_ONCE, maxLength: TRACES_AT_ONCE })
  const property = fc.asyncProperty(several, async (each) => {
    const counts = await Promise.all(each.map((trace) => proveTrace(store, algorithm, trace)))
    for (const count of counts) proved += count
  })
  await fc.assert(property, { numRuns: numRuns / TRACES_AT_ONCE, endOnFailure: true })
  assert.ok(proved > numRuns, `only ${proved} refusals in ${numRuns} traces`)
}

describe('Retry-After in memory', () => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`is exact to the second: ${algorithm}`, long(), () => proveTraces(new MemoryStore(), algorithm, MEMORY_TRACES))
  }
})

forEachDatabase((provider, open) => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`Retry-After is exact to the second on ${provider}: ${algorithm}`, async () => {
      const database = await open()
      try {
        await proveTraces(new DatabaseStore({ database: database.client }), algorithm, DATABASE_TRACES)
      } finally {
        await database.close()
      }
    })
  }
})
