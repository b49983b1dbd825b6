/** Requests that are alike are one row of the log, and no count is another one for it. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Database } from '../../src/database/database.js'
import { type Clock, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { createBatchTable } from '../../src/log/batch-table.js'
import { CollapsingBuffer, type EventDetail } from '../../src/log/collapsing-buffer.js'
import { EVENT_ROWS, type RateLimitEvent } from '../../src/log/event.js'
import { EventLog } from '../../src/log/event-log.js'
import { EventLogState } from '../../src/log/event-log-state.js'
import { fakeClock } from '../support/clock.js'
import { compareReports } from '../support/compare-reports.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { EVENT, tableOf } from '../support/events.js'
import { collectGarbage } from '../support/garbage.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'
import { COLLAPSED, clearLog, requestsBefore, requestsIn, SUMS, toRecorded } from '../support/request-histories.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)
const history = fc.array(fc.array(requestsBefore(NOW_MS), { minLength: 1, maxLength: 40 }), {
  minLength: 1,
  maxLength: 4,
})

function openLog(database: Database, detail?: EventDetail): EventLog {
  const clock = fakeClock(NOW_MS)
  const state = new EventLogState(clock.now, { error: (_details, message) => assert.fail(message) })
  const table = state.counting(createBatchTable(database.log, clock, false, EVENT_ROWS))
  const options = { table, writer: 'w', batchSize: 100, bufferSize: 10_000, now: clock.now, state }
  return new EventLog(options, detail)
}

async function record(log: EventLog, batches: readonly (readonly RateLimitEvent[])[]): Promise<void> {
  for (const events of batches) {
    for (const each of events) log.record(each)
    await log.flush()
  }
}

async function openFor(t: TestContext, open: (clock: Clock) => Promise<TestDatabase>): Promise<Database> {
  const { database, close } = await open(fakeClock(NOW_MS))
  t.after(close)
  return database
}

forEachDatabase((_provider, open) => {
  for (const [what, detail] of [
    ['a collapsed log has every request of a full log, in fewer rows', COLLAPSED],
    ['sums have all but the clients, the keys and the paths of allowed requests', SUMS],
  ] as const) {
    test(what, async (t) => {
      const database = await openFor(t, open)
      await fc.assert(
        fc.asyncProperty(history, async (batches) => {
          await clearLog(database)
          await record(openLog(database), batches)
          const full = await requestsIn(database, detail)
          await clearLog(database)
          const recorded = batches.map((events) => events.map((event) => toRecorded(event, detail)))
          await record(openLog(database, detail), recorded)
          assert.deepEqual(await requestsIn(database, detail), full)
          await compareReports(database, NOW_MS, 1, { rule: 'b' })
        }),
        { numRuns: 12 },
      )
    })
  }
})

forEachDatabase((provider, open) => {
  test('a batch of which the answer was lost is written once, and no weight is added twice', async (t) => {
    const database = await openFor(t, open)
    const clock = fakeClock(NOW_MS)
    const table = createBatchTable(database.log, clock, true, EVENT_ROWS)
    let lostAnswers = 0
    const state = new EventLogState(clock.now, { error: () => undefined })
    const log = new EventLog(
      {
        table: {
          ...table,
          async write(batch, urgent) {
            const written = await table.write(batch, urgent)
            if (lostAnswers++ < 2) throw new Error('the connection broke')
            return written
          },
        },
        writer: 'w',
        batchSize: 100,
        bufferSize: 10_000,
        now: clock.now,
        state,
      },
      COLLAPSED,
    )
    const its = (number: number) => `ip:192.0.2.${number % 7}`
    for (let number = 0; number < 70; number++) {
      log.record({ ...EVENT, timestampMs: NOW_MS, client: its(number), key: its(number) })
    }
    await log.flush()
    await log.flush()
    await log.flush()
    const rows = await database.log.query<{ weight: number }>(
      `SELECT weight FROM ${database.log.dialect.table('rate_limit_event')}`,
    )
    assert.deepEqual(
      rows.map(({ weight }) => weight),
      Array(7).fill(10),
      provider,
    )
    assert.ok(lostAnswers >= 3)
  })
})

/** A log whose rows are kept in memory. */
function logInMemory(detail: EventDetail, bufferSize = 1_000) {
  const rows: unknown[][] = []
  const state = new EventLogState(() => NOW_MS, { error: () => undefined })
  const table = tableOf(async (batch) => {
    rows.push(...batch.rows.map((row) => JSON.parse(row)))
  })
  const options = { table, writer: 'w', batchSize: 5_000, bufferSize, now: () => NOW_MS, state }
  return { log: new EventLog(options, detail), rows }
}

const weights = (rows: readonly unknown[][]) => rows.map((row) => row.at(-1))

test('a flood of refusals of 200 clients is 200 rows', async () => {
  const { log, rows } = logInMemory({ allowed: 'each', refused: 'collapsed' })
  for (let number = 0; number < 50_000; number++) {
    const its = `ip:192.0.2.${number % 200}`
    log.record({ ...EVENT, timestampMs: NOW_MS, client: its, key: its, outcome: 'over_limit', allowed: false })
  }
  await log.flush()
  assert.deepEqual(weights(rows), Array(200).fill(250))
  assert.equal(log.stats().dropped, 0)
})

test('a row has the time, the count and the limit of its last request, and no row is across a minute', async () => {
  const { log, rows } = logInMemory(COLLAPSED)
  const minute = Math.floor(NOW_MS / MINUTE_MS) * MINUTE_MS
  const at = (timestampMs: number, count: number) => log.record({ ...EVENT, timestampMs, count, limit: count + 1 })
  at(minute - 1, 3)
  at(minute, 4)
  at(minute + 5, 6)
  at(minute + 2, 5)
  await log.flush()
  const shown = rows.map((row) => [row[0], row[6], row[7], row.at(-1)])
  assert.deepEqual(shown, [
    [minute - 1, 3, 4, 1],
    [minute + 5, 6, 7, 3],
  ])
})

test('requests that differ in any field have rows of their own', async () => {
  const { log, rows } = logInMemory(COLLAPSED)
  const different: Partial<RateLimitEvent>[] = [
    {},
    { key: 'ip:203.0.113.8' },
    { client: 'ip:203.0.113.8' },
    { ruleName: 'a' },
    { policy: 'a' },
    { rules: '+a:+b' },
    { path: '/a' },
    { method: 'POST' },
    { outcome: 'over_limit' },
    { outcome: 'over_limit', allowed: false },
    { userId: 7 },
    { ipAddress: '203.0.113.7' },
    { clientIp: '203.0.113.7' },
    { timestampMs: HOUR_MS },
    // The same characters, in other fields.
    { policy: 'defaul', ruleName: 't' },
    { client: 'user:7|route:/a b' },
    { client: 'user:7 |route:/a b' },
  ]
  for (let round = 0; round < 2; round++) for (const fields of different) log.record({ ...EVENT, ...fields })
  await log.flush()
  assert.deepEqual(
    weights(rows),
    different.map(() => 2),
  )
})

test('requests that are alike need no room, and others are lost and counted where there is none', async () => {
  const { log, rows } = logInMemory(COLLAPSED, 4)
  for (let round = 0; round < 100; round++) {
    for (const path of ['/a', '/b', '/c', '/d', '/e']) log.record({ ...EVENT, path })
  }
  await log.flush()
  assert.deepEqual(weights(rows), [100, 100, 100, 100])
  assert.equal(log.stats().dropped, 100)
})

test('the figures count requests, whatever the number of rows', long(), async () => {
  const clock = fakeClock(NOW_MS)
  const state = new EventLogState(clock.now, { error: () => undefined })
  let isAway = true
  const table = tableOf(async ({ rows }) => {
    if (isAway) throw new Error('the database is away')
    if (rows.some((row) => row.includes('/refused'))) throw new RangeError('no such row')
  })
  const refusesRows = (error: unknown) => error instanceof RangeError
  const options = { writer: 'w', batchSize: 100, bufferSize: 100, now: clock.now, state }
  const log = new EventLog({ ...options, table: state.counting({ ...table, refusesRows }) }, COLLAPSED)
  const record = (times: number, path: string) => {
    for (let time = 0; time < times; time++) log.record({ ...EVENT, timestampMs: NOW_MS, path })
  }
  record(30, '/a')
  await log.flush()
  record(20, '/b')
  record(7, '/refused')
  const figures = () => {
    const { written, dropped, buffered, spooled } = log.stats()
    return { written, dropped, buffered, spooled }
  }
  assert.deepEqual(figures(), { written: 0, dropped: 0, buffered: 57, spooled: 0 })
  isAway = false
  await log.flush()
  assert.deepEqual(figures(), { written: 50, dropped: 7, buffered: 0, spooled: 0 })
  isAway = true
  record(9, '/c')
  await log.flush()
  record(4, '/c')
  await log.close()
  assert.deepEqual(figures(), { written: 50, dropped: 20, buffered: 0, spooled: 0 })
})

test('in an outage that fills the buffer, requests that are alike to those being written are kept', async () => {
  const state = new EventLogState(() => NOW_MS, { error: () => undefined })
  const rows: unknown[][] = []
  let isAway = true
  const table = tableOf(async (batch) => {
    if (isAway) throw new Error('the database is away')
    rows.push(...batch.rows.map((row) => JSON.parse(row)))
  })
  const options = { table, writer: 'w', batchSize: 100, bufferSize: 4, now: () => NOW_MS, state }
  const log = new EventLog(options, COLLAPSED)
  const record = (path: string) => log.record({ ...EVENT, timestampMs: NOW_MS, path })
  record('/often')
  await log.flush()
  for (const path of ['/a', '/b', '/c', '/d', '/e']) record(path)
  for (let round = 0; round < 50; round++) record('/often')
  assert.equal(log.stats().dropped, 2)
  isAway = false
  while (log.stats().buffered > 0) await log.flush()
  assert.deepEqual(
    rows.map((row) => [row[3], row.at(-1)]),
    [
      ['/often', 1],
      ['/a', 1],
      ['/b', 1],
      ['/c', 1],
      ['/often', 50],
    ],
  )
})

test('many rows are taken some thousand at a time, and a row that was taken takes no more requests', () => {
  const buffer = new CollapsingBuffer(COLLAPSED)
  const push = (number: number, method = 'GET') =>
    buffer.push({ ...EVENT, timestampMs: number, path: `/${number}`, method })
  const take = () => (buffer.take()?.rows ?? []).map((row) => JSON.parse(row))
  for (let number = 0; number < 12_000; number++) push(number)
  assert.equal(take().length, 5_000)
  assert.equal(buffer.firstMs, 5_000)
  // Of a row that was taken, of one that still waits, and of none.
  push(0)
  push(11_000)
  push(0, 'POST')
  push(0)
  assert.deepEqual([buffer.length, buffer.count], [7_002, 7_004])
  assert.equal(take().at(-1)[3], '/9999')
  push(0)
  const rest = take().map((row) => [row[3], row[4], row.at(-1)])
  assert.deepEqual(
    rest.filter(([, , weight]) => weight > 1),
    [
      ['/11000', 'GET', 2],
      ['/0', 'GET', 3],
    ],
  )
  assert.deepEqual(rest.at(-1), ['/0', 'POST', 1])
  assert.deepEqual([buffer.length, buffer.count, buffer.firstMs], [0, 0, undefined])
})

test('a request is compared with no others, whatever its client can vary', () => {
  for (const field of ['client', 'key', 'path', 'method', 'clientIp', 'ipAddress'] as const) {
    const buffer = new CollapsingBuffer({ allowed: 'each', refused: 'collapsed' })
    let reads = 0
    const refusal = (number: number): RateLimitEvent => ({
      ...EVENT,
      key: 'all',
      allowed: false,
      [field]: `made up ${number}`.slice(-10),
      get outcome() {
        reads++
        return 'over_limit' as const
      },
    })
    const readsOf = (number: number) => {
      const before = reads
      buffer.push(refusal(number))
      return reads - before
    }
    const ofFirst = readsOf(0)
    for (let number = 1; number < 3_000; number++) buffer.push(refusal(number))
    assert.equal(readsOf(3_000), ofFirst, field)
    assert.equal(buffer.length, 3_001, field)
  }
})

test('requests that wait keep nothing of long texts but what is logged', long(), () => {
  const buffer = new CollapsingBuffer(COLLAPSED)
  const long = Buffer.alloc(15_000, 'x')
  const textOf = (number: number) =>
    Buffer.concat([Buffer.from(`/${number}/`.padEnd(40, 'x')), long]).toString('latin1')
  collectGarbage()
  const beforeBytes = process.memoryUsage().heapUsed
  for (let number = 0; number < 2_000; number++) {
    buffer.push({
      ...EVENT,
      path: number % 2 === 0 ? textOf(number) : textOf(number).slice(0, 30),
      key: number % 3 === 0 ? textOf(number) : textOf(number).slice(0, 40),
      client: `header:x-api-key:${textOf(number)}`,
      clientIp: textOf(number).slice(0, 15),
    })
  }
  collectGarbage()
  const keptBytes = process.memoryUsage().heapUsed - beforeBytes
  assert.equal(buffer.length, 2_000)
  assert.ok(keptBytes < 2_000 * 5_000, `${keptBytes} bytes are kept`)
})
