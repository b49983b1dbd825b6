/** Four processes with leases on one store admit no more in all than the limit, whatever happens to them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { ALGORITHMS, type Algorithm, type Policy } from '../../src/limiter/algorithm.js'
import type { BatchStore } from '../../src/limiter/limiter.js'
import { windowStartMs } from '../../src/limiter/period.js'
import { controlSweeps, LEASE_MS, type LeasingProcess, remoteStore, startProcess } from '../support/leases.js'
import { openStore } from '../support/store-place.js'
import { forEachStore } from '../support/stores.js'

const PROCESSES = 4
const STEPS = 60
/** `TEST_TRACES` asks for more traces. */
const SHARED_TRACES = Math.ceil(Number(process.env.TEST_TRACES ?? 30) / 10)
const MEMORY_TRACES = 20 * SHARED_TRACES
const START_MS = 1_705_161_600_000
const PERIOD_MS = 5_000
const LIMIT = 120

const requests = fc.record({
  process: fc.nat(PROCESSES - 1),
  cost: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 9 }) }),
  times: fc.integer({ min: 1, max: 12 }),
})
const steps = fc.record({
  waitMs: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 60 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 1_500 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 12_000 }) },
  ),
  /** At once, from several processes. */
  requests: fc.array(requests, { minLength: 1, maxLength: 4 }),
  process: fc.nat(PROCESSES - 1),
  event: fc.oneof(
    { weight: 12, arbitrary: fc.constant('none' as const) },
    { weight: 6, arbitrary: fc.constant('sweep' as const) },
    { weight: 1, arbitrary: fc.constantFrom('crash', 'close', 'reset', 'edit', 'clock') },
  ),
  clockMs: fc.integer({ min: -8_000, max: 8_000 }),
})
const traces = fc.record({
  steps: fc.array(steps, { minLength: STEPS, maxLength: STEPS, size: 'max' }),
  /** Whether processes' clocks are set to other times. */
  clocksStep: fc.boolean(),
})
type Trace = typeof traces extends fc.Arbitrary<infer Value> ? Value : never

let traceNumber = 0

/** What was admitted, when, and after how many resets. */
interface Admitted {
  readonly atMs: number
  readonly cost: number
}

async function proveTrace(
  open: () => BatchStore,
  algorithm: Algorithm,
  { steps, clocksStep }: Trace,
  sweep: () => Promise<void>,
): Promise<void> {
  const key = `leased ${traceNumber++}`
  const stores = Array.from({ length: PROCESSES }, open)
  const start = (store: BatchStore) => startProcess(store, nowMs)
  const admitted: Admitted[] = []
  const resets: number[] = []
  let [nowMs, limit, latestMs] = [START_MS, LIMIT, START_MS]
  const processes: LeasingProcess[] = stores.map(start)
  const offsets = stores.map(() => 0)

  async function send(index: number, cost: number, policy: Policy): Promise<void> {
    const { limiter, clock } = at(processes, index)
    clock.nowMs = nowMs + at(offsets, index)
    latestMs = Math.max(latestMs, clock.nowMs)
    const { allowed, count, remaining } = await limiter.checkLeased({ key, policy, cost }, clock.nowMs)
    assert.ok(cost === 0 || allowed === count <= policy.limit, `${allowed} at ${count}`)
    assert.ok(count >= cost && remaining >= 0 && remaining <= policy.limit)
    if (allowed && cost > 0) admitted.push({ atMs: nowMs, cost })
  }

  for (const { waitMs, requests, event, process, clockMs } of steps) {
    nowMs += waitMs
    for (const [index, { clock }] of processes.entries()) clock.nowMs = nowMs + at(offsets, index)
    if (event === 'sweep') await sweep()
    // A process that dies gives nothing back, and its timer ends with it.
    if (event === 'crash') processes[process] = start(at(stores, process))
    if (event === 'close') {
      await at(processes, process).limiter.close()
      processes[process] = start(at(stores, process))
    }
    if (event === 'edit') limit = limit === LIMIT ? LIMIT / 2 : LIMIT
    if (event === 'clock' && clocksStep) offsets[process] = clockMs
    if (event === 'reset') {
      await at(processes, process).limiter.reset([key])
      resets.push(nowMs)
    }
    const policy = { algorithm, limit, periodMs: PERIOD_MS }
    await Promise.all(
      requests.flatMap(({ process, cost, times }) => Array.from({ length: times }, () => send(process, cost, policy))),
    )
  }
  if (clocksStep) assertTotal(algorithm, admitted, resets.length, latestMs)
  else assertEverySpan(algorithm, admitted, resets)
  for (const { limiter } of processes) await limiter.close()
}

/** The most that counters admit from the start until the latest time of any clock. */
function assertTotal(algorithm: Algorithm, admitted: readonly Admitted[], resets: number, latestMs: number): void {
  const periods = (latestMs - START_MS) / PERIOD_MS
  const isBucket = algorithm.endsWith('bucket')
  const most = LIMIT * (isBucket ? 1 + periods : 1 + Math.floor(periods)) + LIMIT * resets
  const total = sum(admitted)
  assert.ok(total <= most, `${total} admitted, ${most} are the limit`)
}

function assertEverySpan(algorithm: Algorithm, admitted: readonly Admitted[], resets: readonly number[]): void {
  const isBucket = algorithm.endsWith('bucket')
  const moments = [...new Set(admitted.map(({ atMs }) => atMs))]
  const ends = isBucket ? moments : moments.map((atMs) => windowStartMs(PERIOD_MS, atMs) + PERIOD_MS - 1)
  for (const atMs of moments) {
    const startMs = isBucket ? atMs : windowStartMs(PERIOD_MS, atMs)
    for (const endMs of new Set(ends)) {
      const spanMs = endMs - startMs
      if (spanMs < 0 || (!isBucket && spanMs > PERIOD_MS)) continue
      const drained = isBucket ? (spanMs * LIMIT) / PERIOD_MS : 0
      // A share from before a reset was counted before; another process may still use it.
      const restarts = resets.filter((resetMs) => resetMs > startMs - LEASE_MS && resetMs <= endMs).length
      const most = LIMIT * (1 + restarts) + drained
      const total = sum(admitted.filter(({ atMs }) => atMs >= startMs && atMs <= endMs))
      assert.ok(total <= most, `${total} from ${startMs - START_MS} to ${endMs - START_MS}, ${most} are the limit`)
    }
  }
}

function sum(admitted: readonly Admitted[]): number {
  return admitted.reduce((total, { cost }) => total + cost, 0)
}

function at<Value>(values: readonly Value[], index: number): Value {
  const value = values[index]
  assert.ok(value !== undefined)
  return value
}

function proveTraces(t: TestContext, open: () => () => BatchStore, algorithm: Algorithm, numRuns: number) {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  const sweep = controlSweeps(t)
  const property = fc.asyncProperty(traces, (trace) => proveTrace(open(), algorithm, trace, sweep))
  return fc.assert(property, { seed, numRuns, endOnFailure: true })
}

for (const algorithm of ALGORITHMS) {
  test(`${MEMORY_TRACES} traces in memory: ${algorithm}`, (t) =>
    proveTraces(
      t,
      () => {
        const store = remoteStore()
        return () => store
      },
      algorithm,
      MEMORY_TRACES,
    ))
}

forEachStore((name, open) => {
  for (const algorithm of ALGORITHMS) {
    test(`${SHARED_TRACES} traces on ${name}: ${algorithm}`, async (t) => {
      const { place, close } = await open()
      const stores = Array.from({ length: PROCESSES }, () => openStore(place))
      try {
        let opened = 0
        await proveTraces(t, () => () => at(stores, opened++ % PROCESSES), algorithm, SHARED_TRACES)
      } finally {
        await Promise.all(stores.map((store) => store.close()))
        await close()
      }
    })
  }
})
