/** Shares of a busy client's limit: counted down in memory, never more than the limit in all, and given back. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { Leases } from '../../src/limiter/leases.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { createReference } from '../conformance/traces.js'
import { controlSweeps, LEASE_MS, type LeasingProcess, remoteStore, startProcess } from '../support/leases.js'

const NOW_MS = 1_705_161_600_000
const LIMIT = 1_000

function checkOf(rest: Partial<Check['policy']> & { cost?: number } = {}): Check {
  const { cost = 1, ...policy } = rest
  return { key: 'a', policy: { algorithm: 'fixed_window', limit: LIMIT, periodMs: 60_000, ...policy }, cost }
}

function setUp(t: TestContext) {
  const sweep = controlSweeps(t)
  const store = remoteStore()
  return { store, sweep, start: () => startProcess(store, NOW_MS) }
}

/** Sends requests, one every 10 ms, and moves the process's clock on. */
async function send({ limiter, clock }: LeasingProcess, requests: number, check: Check): Promise<Decision[]> {
  const decisions: Decision[] = []
  for (let sent = 0; sent < requests; sent++) {
    decisions.push(await limiter.checkLeased(check, clock.now()))
    clock.advance(10)
  }
  return decisions
}

for (const [name, policy] of [
  ['a token bucket', toPolicy('token_bucket', parseRate('10000/m'))],
  ['a leaky bucket', toPolicy('leaky_bucket', parseRate('10000/m'))],
  ['a sliding window', toPolicy('sliding_window', parseRate('10000/m'))],
  ['several fixed windows', toPolicy('fixed_window', parseRate('10000/m, 20000/h'))],
  ['a calendar month', toPolicy('fixed_window', parseRate('10000/month'))],
] as const) {
  test(`every request asks the store where the limit is ${name}`, async (t) => {
    const { store, start } = setUp(t)
    await send(start(), 50, { key: 'a', policy, cost: 1 })
    assert.equal(store.calls, 50)
  })
}

test('a client with 100 requests a second costs a store call per 20 requests at most', async (t) => {
  const { store, sweep, start } = setUp(t)
  const process = start()
  for (let second = 0; second < 20; second += 0.5) {
    const decisions = await send(process, 50, checkOf({ limit: 10_000 }))
    assert.ok(decisions.every(({ allowed }) => allowed))
    await sweep()
  }
  t.diagnostic(`${store.calls} calls for 2000 requests`)
  assert.ok(store.calls <= 2_000 / 20, `${store.calls} calls`)
})

test('a process alone admits what the store would, down to the last request', async (t) => {
  const { store, start } = setUp(t)
  const process = start()
  const reference = createReference()
  const check = checkOf({ limit: 300 })
  for (let sent = 0; sent < 400; sent++) {
    const { allowed, count, remaining } = await process.limiter.checkLeased(check, NOW_MS + sent)
    const expected = reference(check, NOW_MS + sent)
    assert.equal(allowed, expected.allowed, `request ${sent}`)
    if (!allowed) continue
    assert.equal(count, expected.count, `request ${sent}`)
    assert.equal(remaining, 300 - count)
  }
  assert.ok(store.calls < 60, `${store.calls} calls`)
})

test('what is left of a share goes back when it ends', async (t) => {
  const { store, sweep, start } = setUp(t)
  const process = start()
  const check = checkOf({ periodMs: 3_600_000 })
  const [, , third] = await send(process, 3, check)
  const reference = createReference()
  for (const ms of [0, 10, 20]) reference(check, NOW_MS + ms)
  assert.equal(third?.count, 3)
  assert.ok(store.counted(check, process.clock.now()) > 3)
  process.clock.advance(1_000)
  await sweep()
  const nowMs = process.clock.now()
  assert.equal(store.counted(check, nowMs), reference({ ...check, cost: 0 }, nowMs).count)
})

test('another limit of the same counter applies at once, and the share goes back', async (t) => {
  const { start } = setUp(t)
  const process = start()
  await send(process, 3, checkOf({ periodMs: 3_600_000 }))
  const [decision] = await send(process, 1, checkOf({ periodMs: 3_600_000, limit: 4 }))
  assert.deepEqual([decision?.allowed, decision?.count, decision?.remaining], [true, 4, 0])
  const [refused] = await send(process, 1, checkOf({ periodMs: 3_600_000, limit: 4 }))
  assert.equal(refused?.allowed, false)
})

test('a client with few requests has no share: each asks the store', async (t) => {
  const { store, sweep, start } = setUp(t)
  const { limiter, clock } = start()
  for (let sent = 1; sent <= 20; sent++) {
    await limiter.checkLeased(checkOf(), clock.now())
    assert.equal(store.counted(checkOf(), clock.now()), sent)
    clock.advance(500)
    await sweep()
  }
  assert.equal(store.calls, 20)
})

test('a limit edited to several windows counts what was really used, and has no share', async (t) => {
  const { store, start } = setUp(t)
  const process = start()
  await send(process, 3, checkOf())
  assert.ok(store.counted(checkOf(), NOW_MS) > 3)
  const edited = { key: 'a', policy: toPolicy('fixed_window', parseRate('1000/m, 5000/h')), cost: 1 }
  const [first] = await send(process, 1, edited)
  assert.deepEqual([first?.count, first?.windows?.map(({ remaining }) => remaining)], [4, [996, 4_999]])
  const calls = store.calls
  await send(process, 20, edited)
  assert.equal(store.calls, calls + 20)
})

test('a share ends with its window', async (t) => {
  const { store, start } = setUp(t)
  const process = start()
  await send(process, 100, checkOf({ periodMs: 1_000, limit: 10_000 }))
  const [next] = await send(process, 1, checkOf({ periodMs: 1_000, limit: 10_000 }))
  assert.equal(next?.count, 1)
  assert.equal(store.counted(checkOf({ periodMs: 1_000, limit: 10_000 }), process.clock.now()), 1)
})

test('a fixed window whose share does not fit is not charged for it', async (t) => {
  const { store, start } = setUp(t)
  const [one, other] = [start(), start()]
  await send(one, 2, checkOf())
  await other.limiter.check(checkOf({ cost: LIMIT - store.counted(checkOf(), NOW_MS) - 1 }), NOW_MS)
  const decisions = await send(one, 500, checkOf())
  const admitted = decisions.filter(({ allowed }) => allowed).length
  assert.ok(admitted > 0)
  assert.equal(decisions.find(({ allowed }) => !allowed)?.count, LIMIT + 1)
})

test('a limit that refuses nothing is asked in any case, and a peek sees what was really used', async (t) => {
  const { store, start } = setUp(t)
  const { limiter, clock } = start()
  const process = { limiter, clock }
  await send(process, 3, checkOf())
  assert.ok(store.counted(checkOf(), clock.now()) > 3)
  assert.equal((await limiter.checkLeased(checkOf({ cost: 0 }), clock.now())).count, 3)
  assert.equal(store.counted(checkOf(), clock.now()), 3)
  const calls = store.calls
  for (let sent = 0; sent < 50; sent++) await limiter.check({ ...checkOf(), key: 'counted only' }, clock.now())
  assert.equal(store.calls, calls + 50)
})

test('a reset ends the share, in this process and in others, and takes nothing from the new counter', async (t) => {
  const { store, sweep, start } = setUp(t)
  const [one, other] = [start(), start()]
  await send(one, 3, checkOf())
  await send(other, 3, checkOf())
  await one.limiter.reset(['a'])
  assert.equal((await send(one, 1, checkOf()))[0]?.count, 1)
  await one.limiter.check(checkOf({ cost: 30 }), NOW_MS)
  one.clock.advance(1_000)
  other.clock.advance(1_000)
  await sweep()
  assert.equal(store.counted(checkOf(), NOW_MS), 31)
})

test('a store that fails leaves the share to be used up, and then the fallback decides', async (t) => {
  const { store, start } = setUp(t)
  const process = start()
  await send(process, 3, checkOf())
  const held = store.counted(checkOf(), NOW_MS) - 3
  assert.ok(held > 0)
  store.failure = new Error('no store')
  const decisions = await send(process, held + 1, checkOf())
  assert.deepEqual(
    decisions.map(({ unavailable }) => unavailable === true),
    [...Array<boolean>(held).fill(false), true],
  )
})

test('closing gives everything back', async (t) => {
  const { store, start } = setUp(t)
  const process = start()
  await send(process, 3, checkOf())
  await process.limiter.close()
  assert.equal(store.counted(checkOf(), NOW_MS), 3)
})

test('requests at once share one call, and are decided in their order', async (t) => {
  const { store, start } = setUp(t)
  const { limiter, clock } = start()
  for (let batch = 0; batch < 3; batch++) {
    const before = store.calls
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.checkLeased(checkOf(), clock.now())))
    assert.deepEqual(
      decisions.map(({ count }) => count),
      Array.from({ length: 20 }, (_, index) => batch * 20 + index + 1),
    )
    assert.ok(store.calls - before <= 1)
    clock.advance(10)
  }
})

test('more clients than are remembered push out the oldest, whose share goes back', async (t) => {
  const { store, sweep, start } = setUp(t)
  const process = start()
  await send(process, 3, checkOf())
  await Promise.all(
    Array.from({ length: 10_000 }, (_, index) =>
      process.limiter.checkLeased({ ...checkOf(), key: `other ${index}` }, process.clock.now()),
    ),
  )
  await sweep()
  assert.equal(store.counted(checkOf(), NOW_MS), 3)
})

test('what is spent of a share while the store fails is not held again', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const store = remoteStore()
  let nowMs = NOW_MS
  const leases = new Leases(store, { leaseMs: LEASE_MS, now: () => nowMs })
  const check = checkOf({ limit: 10_000 })
  for (let sent = 0; sent < 10; sent++) {
    nowMs += 10
    leases.decideLocally(check, nowMs) ?? (await leases.check([check], nowMs))
  }
  function spendAll(): number {
    let spent = 0
    while (leases.decideLocally(check, nowMs) !== undefined) spent++
    return spent
  }
  const held = store.counted(check, nowMs) - 10
  store.check = async () => {
    assert.equal(spendAll(), held)
    throw new Error('no answer')
  }
  assert.ok(held > 0)
  await assert.rejects(leases.check([{ ...check, cost: 100 }], nowMs), /no answer/)
  assert.equal(spendAll(), 0)
})
