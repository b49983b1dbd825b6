/** Four processes with leases on one store admit no more in all than the limit, whatever happens to them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { PlainPolicy } from '../../src/limiter/algorithm.js'
import type { BatchStore } from '../../src/limiter/batch-store.js'
import { windowEndMs, windowStartMs } from '../../src/limiter/period.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { singlePolicies } from '../../src/limiter/windows.js'
import { controlSweeps, LEASE_MS, type LeasingProcess, remoteStore, startProcess } from '../support/leases.js'
import { fc } from '../support/properties.js'
import { openStore } from '../support/store-location.js'
import { forEachStore } from '../support/stores.js'

const PROCESSES = 4
const STEPS = 60
const CLOCK_STEP_MS = 8_000
/** `TEST_TRACES` asks for more traces. */
const SHARED_TRACES = Math.ceil(Number(process.env.TEST_TRACES ?? 30) / 10)
const MEMORY_TRACES = 8 * SHARED_TRACES

/** The rate of a trace, the lower one to which it is edited meanwhile, and when it starts. */
interface Course {
  readonly rate: string
  readonly edited: string
  readonly startMs: number
}

const ONE_WINDOW: Course = { rate: '120/5s', edited: '60/5s', startMs: 1_705_161_600_000 }
/** The edited limit has several windows, thus no share; minutes end meanwhile. */
const SEVERAL: Course = { rate: '120/5s', edited: '200/m, 60/5s, 20/s', startMs: 1_705_161_643_210 }

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
  clockMs: fc.integer({ min: -CLOCK_STEP_MS, max: CLOCK_STEP_MS }),
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
  { rate, edited, startMs }: Course,
  { steps, clocksStep }: Trace,
  sweep: () => Promise<void>,
): Promise<void> {
  const key = `leased ${traceNumber++}`
  const stores = Array.from({ length: PROCESSES }, open)
  const start = (store: BatchStore) => startProcess(store, nowMs)
  const admitted: Admitted[] = []
  const resets: number[] = []
  const policies = [rate, edited].map((text) => toPolicy('fixed_window', parseRate(text)))
  let [nowMs, latestMs, edits] = [startMs, startMs, 0]
  const processes: LeasingProcess[] = stores.map(start)
  const offsets = stores.map(() => 0)

  async function send(index: number, cost: number): Promise<void> {
    const policy = at(policies, edits % 2)
    const { limiter, clock } = at(processes, index)
    clock.advance(nowMs + at(offsets, index) - clock.now())
    latestMs = Math.max(latestMs, clock.now())
    const { allowed, count, limit, remaining, windows } = await limiter.checkLeased({ key, policy, cost }, clock.now())
    assert.ok(cost === 0 || allowed === count <= limit, `${allowed} at ${count}`)
    assert.ok(count >= cost && remaining >= 0 && remaining <= limit)
    assert.deepEqual(
      windows?.map((window) => window.limit),
      policy.windows?.map((window) => window.limit),
    )
    if (allowed && cost > 0) admitted.push({ atMs: nowMs, cost })
  }

  for (const { waitMs, requests, event, process, clockMs } of steps) {
    nowMs += waitMs
    for (const [index, { clock }] of processes.entries()) clock.advance(nowMs + at(offsets, index) - clock.now())
    if (event === 'sweep') await sweep()
    // A process that dies gives nothing back, and its timer ends with it.
    if (event === 'crash') processes[process] = start(at(stores, process))
    if (event === 'close') {
      await at(processes, process).limiter.close()
      processes[process] = start(at(stores, process))
    }
    if (event === 'edit') edits++
    if (event === 'clock' && clocksStep) offsets[process] = clockMs
    if (event === 'reset') {
      await at(processes, process).limiter.reset([key])
      resets.push(nowMs)
    }
    await Promise.all(
      requests.flatMap(({ process, cost, times }) => Array.from({ length: times }, () => send(process, cost))),
    )
  }
  const [first, other] = policies.map(singlePolicies)
  for (const window of first ?? []) {
    if (!other?.some(({ periodMs }) => periodMs === window.periodMs)) continue
    if (clocksStep) assertTotal(window, admitted, resets.length, startMs, latestMs)
    else assertEverySpan(window, admitted, resets)
  }
  for (const { limiter } of processes) await limiter.close()
}

/** The most that a window admits from the start until the latest time of any clock. */
function assertTotal(
  window: PlainPolicy,
  admitted: readonly Admitted[],
  resets: number,
  startMs: number,
  latestMs: number,
) {
  const { limit, periodMs } = window
  // After a reset a counter may start by a clock that is behind.
  const repeatedMs = 2 * CLOCK_STEP_MS
  let periods = resets * (1 + Math.ceil(repeatedMs / periodMs))
  for (let atMs = startMs; windowStartMs(periodMs, atMs) <= latestMs; atMs = endOf(window, atMs)) periods++
  const total = sum(admitted)
  assert.ok(total <= limit * periods, `${total} admitted of ${limit} in ${periods} times ${periodMs} ms`)
}

/** What a window admits in each of the spans from its start to its end. */
function assertEverySpan({ limit, periodMs }: PlainPolicy, admitted: readonly Admitted[], resets: readonly number[]) {
  for (const startMs of new Set(admitted.map(({ atMs }) => windowStartMs(periodMs, atMs)))) {
    const endMs = windowEndMs(periodMs, startMs)
    // A share from before a reset was counted before; another process may still use it.
    const restarts = resets.filter((resetMs) => resetMs > startMs - LEASE_MS && resetMs < endMs).length
    const most = limit * (1 + restarts)
    const total = sum(admitted.filter(({ atMs }) => atMs >= startMs && atMs < endMs))
    assert.ok(total <= most, `${total} from ${startMs} to ${endMs}, ${most} are the limit`)
  }
}

function endOf({ periodMs }: PlainPolicy, atMs: number): number {
  return windowEndMs(periodMs, windowStartMs(periodMs, atMs))
}

function sum(admitted: readonly Admitted[]): number {
  return admitted.reduce((total, { cost }) => total + cost, 0)
}

function at<Value>(values: readonly Value[], index: number): Value {
  const value = values[index]
  assert.ok(value !== undefined)
  return value
}

/** The rates by which traces run: a limit with shares, which is edited to another one, or to one without. */
const COURSES = [
  { name: 'one window', course: ONE_WINDOW },
  { name: 'one window, edited to several', course: SEVERAL },
]

function proveTraces(t: TestContext, open: () => () => BatchStore, course: Course, numRuns: number) {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  const sweep = controlSweeps(t)
  const property = fc.asyncProperty(traces, (trace) => proveTrace(open(), course, trace, sweep))
  return fc.assert(property, { seed, numRuns, endOnFailure: true })
}

for (const { name, course } of COURSES) {
  test(`${MEMORY_TRACES} traces in memory: ${name}`, (t) =>
    proveTraces(
      t,
      () => {
        const store = remoteStore()
        return () => store
      },
      course,
      MEMORY_TRACES,
    ))
}

forEachStore((name, open) => {
  for (const { name: courseName, course } of COURSES) {
    test(`${SHARED_TRACES} traces on ${name}: ${courseName}`, async (t) => {
      const { location, close } = await open()
      const stores = Array.from({ length: PROCESSES }, () => openStore(location))
      try {
        let opened = 0
        await proveTraces(t, () => () => at(stores, opened++ % PROCESSES), course, SHARED_TRACES)
      } finally {
        await Promise.all(stores.map((store) => store.close()))
        await close()
      }
    })
  }
})
