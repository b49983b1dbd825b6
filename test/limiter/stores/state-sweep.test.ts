/** Running servers delete what has expired, a little at a time, without anybody asking them to. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import { StateSweep, stateDeletions } from '../../../src/limiter/stores/sql/state-cleanup.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { countStatements } from '../../support/count-statements.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../../support/databases.js'
import { eventually } from '../../support/eventually.js'

/** No pause between two batches is that long, and no wait between two rounds that short. */
const LONG_MS = MINUTE_MS

forEachDatabase((provider) => {
  test('a sweep deletes what expired an hour ago, from every table, a hundred rows at a time', async (t) => {
    const { clock, database, sweep, use, left } = await openSwept(t, provider)
    await use('old', 250)
    clock.advance(HOUR_MS)
    await use('new', 5)
    clock.advance(3 * MINUTE_MS)

    const count = countStatements()
    t.after(() => count.stop())
    const waits = await sweepRound(sweep)

    assert.equal(waits.length, ALGORITHMS.length * 3, 'batches')
    assert.ok(waits.slice(0, -1).every((waitMs) => waitMs > 0 && waitMs < 1_000))
    assert.equal(count.of('SELECT COUNT').length, 0)
    assert.deepEqual(await left(), [5, 5, 5, 5, 5])
    assert.equal(await database.client.rateLimitTokenBucket.count({ where: { key: { startsWith: 'new' } } }), 5)
  })

  test('an empty sweep is one statement per table', async (t) => {
    const { sweep } = await openSwept(t, provider)
    const count = countStatements()
    t.after(() => count.stop())

    assert.equal((await sweepRound(sweep)).length, ALGORITHMS.length)

    assert.equal(count.of('rate_limit_').length, ALGORITHMS.length)
  })

  test('two processes that sweep at once do each other no harm', async (t) => {
    const { clock, database, use, left, sweep } = await openSwept(t, provider)
    await use('old', 250)
    clock.advance(2 * HOUR_MS)
    await use('new', 5)
    const log = { warn: () => assert.fail('nothing fails') }
    const other = new StateSweep({ deletions: stateDeletions(database.database), clock, log })

    await Promise.all([sweepRound(sweep), sweepRound(other)])
    // What one of them was just deleting the other passed over: the next round finds nothing that is left.
    await sweepRound(sweep)

    assert.deepEqual(await left(), [5, 5, 5, 5, 5])
  })

  test('a database that fails is logged once, ends the round, and is swept when it is back', async (t) => {
    const { clock, database, use, left, sweep, warnings } = await openSwept(t, provider)
    await use('old', 5)
    clock.advance(2 * HOUR_MS)
    const { dialect } = database.database
    const rename = (from: string, to: string) =>
      database.database.execute(
        `ALTER TABLE ${dialect.table(from)} RENAME TO ${provider === 'sqlite' ? dialect.table(to) : `"${to}"`}`,
      )
    await rename('rate_limit_sliding_window', 'elsewhere')

    for (let round = 0; round < 3; round++) assert.equal((await sweepRound(sweep)).length, 2)
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /cannot be deleted/)

    await rename('elsewhere', 'rate_limit_sliding_window')
    assert.equal((await sweepRound(sweep)).length, ALGORITHMS.length)
    assert.deepEqual(await left(), [0, 0, 0, 0, 0])
    await rename('rate_limit_counter', 'elsewhere')
    await sweepRound(sweep)
    assert.equal(warnings.length, 2, 'a new outage')
  })

  test('a server sweeps, by a timer that keeps no process alive and that closing the app clears', async (t) => {
    const timers = watchTimers(t)
    const { clock, database, use, left } = await openSwept(t, provider)
    await use('old', 150)
    clock.advance(2 * HOUR_MS)
    const { app, log } = await startApp(t, { database, clock })
    const [first] = timers.long
    assert.ok(first !== undefined && timers.long.length === 1)
    assert.equal(first.timer.hasRef(), false)

    first.run()
    await eventually('the sweep has come around', () => timers.long.length === 2)

    assert.deepEqual(await left(), [0, 0, 0, 0, 0])
    await app.close()
    assert.ok(timers.cleared.has(timers.long[1]?.timer))
    assert.deepEqual(log, [])
  })

  test('a server that is closed in the middle of a batch says nothing and does not go on', async (t) => {
    const timers = watchTimers(t)
    const { clock, database, use } = await openSwept(t, provider)
    await use('old', 250)
    clock.advance(2 * HOUR_MS)
    const { app, log } = await startApp(t, {
      database: null,
      clock,
      plugin: { database: database.url, schema: database.schema, middleware: { backend: 'database' } },
    })
    const count = countStatements()
    t.after(() => count.stop())

    timers.long[0]?.run()
    await app.close()
    await new Promise(setImmediate)

    assert.ok(count.of('DELETE').length <= 1)
    assert.equal(timers.long.length, 1)
    assert.deepEqual(log, [])
  })
})

test('a plugin that is disabled, or that stores nothing in the database, does not sweep', async (t) => {
  const timers = watchTimers(t)
  const database = await openDatabase(t, 'sqlite')
  const store = new DatabaseStore({ database: database.client })
  await startApp(t, { database, plugin: { enabled: false } })
  await startApp(t, { database, plugin: { middleware: { backend: 'memory' } } })
  await startApp(t, { database, plugin: { middleware: { backend: store } } })
  assert.equal(timers.long.length, 0)

  await startApp(t, { database })
  assert.equal(timers.long.length, 1)
})

test('a server that obeys overrides deletes bans that expired an hour ago, wherever it counts', async (t) => {
  const timers = watchTimers(t)
  const clock = fakeClock()
  const database = await openDatabase(t, 'sqlite', clock)
  const { rateLimitOverride } = database.client
  const ban = { client: 'ip:192.0.2.1', effect: 'deny', note: 'banned by rule api' }
  await rateLimitOverride.create({ data: { ...ban, expiresAt: new Date(clock.now() + MINUTE_MS) } })
  await startApp(t, { database, clock, plugin: { useDynamicRules: true, middleware: { backend: 'memory' } } })
  for (const [afterMs, left] of [
    [HOUR_MS, 1],
    [2 * MINUTE_MS, 0],
  ] as const) {
    clock.advance(afterMs)
    const rounds = timers.long.length
    timers.long.at(-1)?.run()
    await eventually('the sweep has come around', () => timers.long.length > rounds)
    assert.equal(await rateLimitOverride.count(), left)
  }
})

test('rounds are five to fifteen minutes apart, at random', async (t) => {
  const { database, clock } = await openSwept(t, 'sqlite')
  const waits: number[] = []
  for (const random of [0, 0.5, 0.999_999]) {
    const sweep = new StateSweep({
      deletions: stateDeletions(database.database),
      clock,
      log: { warn: () => undefined },
      random: () => random,
    })
    waits.push(Math.round((await sweepRound(sweep)).at(-1) ?? 0))
  }
  assert.deepEqual(
    waits.map((waitMs) => Math.round(waitMs / MINUTE_MS)),
    [5, 10, 15],
  )
})

async function openSwept(t: TestContext, provider: Provider) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  const warnings: string[] = []
  const sweep = new StateSweep({
    deletions: stateDeletions(database.database),
    clock,
    log: { warn: (_details, message) => warnings.push(message) },
  })
  const store = new DatabaseStore({ database: database.client })
  /** Lets so many clients make one request under each algorithm. */
  function use(name: string, clients: number) {
    const checks = ALGORITHMS.flatMap((algorithm) =>
      Array.from({ length: clients }, (_, index) => ({
        key: `${name}${index}`,
        policy: { algorithm, limit: 5, periodMs: MINUTE_MS },
        cost: 1,
      })),
    )
    return store.check(checks, clock.now())
  }
  return { clock, database, sweep, warnings, use, left: () => rowsLeft(database) }
}

function rowsLeft({ client }: TestDatabase): Promise<number[]> {
  return Promise.all([
    client.rateLimitCounter.count(),
    client.rateLimitSlidingWindow.count(),
    client.rateLimitTokenBucket.count(),
    client.rateLimitLeakyBucket.count(),
    client.rateLimitConcurrency.count(),
  ])
}

/** Takes the steps of one round without waiting between them, and answers the waits that were asked for. */
async function sweepRound(sweep: StateSweep): Promise<number[]> {
  const waits: number[] = []
  do waits.push(await sweep.step())
  while ((waits.at(-1) ?? LONG_MS) < LONG_MS)
  return waits
}

/** Notes timers that are set for a long time, and those that are cleared. */
function watchTimers(t: TestContext) {
  const long: { run: () => void; timer: NodeJS.Timeout }[] = []
  const cleared = new Set<unknown>()
  const { setTimeout: set, clearTimeout: clear } = globalThis
  t.mock.method(globalThis, 'setTimeout', (run: () => void, forMs?: number) => {
    const timer = set(run, forMs)
    if (forMs !== undefined && forMs >= LONG_MS) long.push({ run, timer })
    return timer
  })
  t.mock.method(globalThis, 'clearTimeout', (timer: NodeJS.Timeout | undefined) => {
    cleared.add(timer)
    clear(timer)
  })
  return { long, cleared }
}
