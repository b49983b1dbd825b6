/** Every store agrees with the pure functions on random traces: same decisions, counts and waits. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../src/ground/time/clock.js'
import { type Algorithm, RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { MemoryStore } from '../../../src/limiter/stores/memory/memory-store.js'
import type { Store } from '../../../src/limiter/stores/store.js'
import { createReference } from '../../conformance/traces.js'
import { longLeftOut } from '../../support/long.js'
import { fc } from '../../support/properties.js'
import { openStore } from '../../support/store-location.js'
import { forEachStore } from '../../support/stores.js'

const STEPS = 50
/** A trace is a hundred checks or so. `TEST_TRACES` asks for more traces. */
const SHARED_TRACES = Number(process.env.TEST_TRACES ?? (longLeftOut ? 10 : 30))
/** A database or Redis takes ten to a hundred times as long as memory. */
const MEMORY_TRACES = 10 * SHARED_TRACES
/** As many traces at once as there are connections, so that they wait for the disk together. */
const TRACES_AT_ONCE = 5
const MAX_LIMIT = 2_147_483_647
const START_MS = 1_705_161_615_000

const rates = fc.constantFrom(
  { limit: 10, periodMs: MINUTE_MS },
  { limit: 20, periodMs: MINUTE_MS },
  { limit: 10, periodMs: HOUR_MS },
  { limit: 7, periodMs: SECOND_MS },
  { limit: 1, periodMs: 366 * DAY_MS },
  { limit: 0, periodMs: MINUTE_MS },
  { limit: MAX_LIMIT, periodMs: SECOND_MS },
  { limit: MAX_LIMIT, periodMs: 366 * DAY_MS },
  { limit: MAX_LIMIT - 18, periodMs: 366 * DAY_MS },
)
/** How a trace goes on: mostly at the same rate, soon afterwards. */
const steps = fc.record({
  waitMs: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 20_000 }) },
    { weight: 2, arbitrary: fc.integer({ min: -40_000, max: 90_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: -2 * HOUR_MS, max: 2 * HOUR_MS }) },
    { weight: 1, arbitrary: fc.integer({ min: -500 * DAY_MS, max: 500 * DAY_MS }) },
  ),
  newRate: fc.oneof({ weight: 11, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: rates }),
  checks: fc.array(
    fc.record({
      key: fc.constantFrom('a', 'b'),
      cost: fc.oneof(
        { weight: 6, arbitrary: fc.constant(1) },
        { weight: 2, arbitrary: fc.integer({ min: 0, max: 12 }) },
        { weight: 2, arbitrary: fc.integer({ min: 1, max: MAX_LIMIT }) },
      ),
    }),
    { minLength: 1, maxLength: 4 },
  ),
})
const traces = fc.record({ rate: rates, steps: fc.array(steps, { minLength: STEPS, maxLength: STEPS, size: 'max' }) })
type Trace = typeof traces extends fc.Arbitrary<infer Value> ? Value : never

let traceNumber = 0

/** @param open answers the store of some traces; one in memory has one clock, so that many traces do not share it */
function proveTraces(t: TestContext, open: () => Store, algorithm: Algorithm, numRuns: number): Promise<void> {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  const property = fc.asyncProperty(
    fc.array(traces, { minLength: TRACES_AT_ONCE, maxLength: TRACES_AT_ONCE }),
    async (several) => {
      const store = open()
      await Promise.all(several.map((trace) => proveTrace(store, algorithm, trace)))
    },
  )
  return fc.assert(property, { seed, numRuns: numRuns / TRACES_AT_ONCE, endOnFailure: true })
}

async function proveTrace(store: Store, algorithm: Algorithm, trace: Trace): Promise<void> {
  const reference = createReference()
  const stem = `trace ${traceNumber++}`
  let [nowMs, rate] = [START_MS, trace.rate]
  for (const [index, { waitMs, newRate, checks }] of trace.steps.entries()) {
    nowMs += waitMs
    rate = newRate ?? rate
    const policy = { algorithm, ...rate }
    const batch = checks.map(({ key, cost }) => ({ key: `${stem} ${key}`, policy, cost }))
    const expected = batch.map((check) => reference(check, nowMs))
    assert.deepEqual(await store.check(batch, nowMs), expected, `step ${index}`)
  }
}

describe(`${MEMORY_TRACES} traces of ${STEPS} steps`, () => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`${algorithm} in memory`, (t) => proveTraces(t, () => new MemoryStore(), algorithm, MEMORY_TRACES))
  }
})

forEachStore((name, open) => {
  describe(`${SHARED_TRACES} traces of ${STEPS} steps`, () => {
    for (const algorithm of RATE_ALGORITHMS) {
      test(`${algorithm} on ${name}`, async (t) => {
        const { location, close } = await open()
        const store = openStore(location)
        try {
          await proveTraces(t, () => store, algorithm, SHARED_TRACES)
        } finally {
          await store.close()
          await close()
        }
      })
    }
  })
})
