import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storable } from '../../src/ground/storable.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { EventLog } from '../../src/log/event-log.js'
import { EventLogState } from '../../src/log/event-log-state.js'
import { fakeClock } from '../support/clock.js'
import { EVENT, tableOf } from '../support/events.js'
import { long } from '../support/long.js'

function eventOf(key: string): RateLimitEvent {
  return { ...EVENT, key }
}

/** A table whose writing can be held up and made to fail, and which keeps what was written. */
function logOf({ bufferSize = 1_000, batchSize = 200, maxGatherMs = 0, asked = () => {} } = {}) {
  const clock = fakeClock()
  const lines: string[] = []
  const waiting: (() => void)[] = []
  const table = {
    batches: [] as number[],
    keys: [] as string[],
    counts: [] as number[],
    last: 0,
    held: false,
    failure: undefined as Error | undefined,
    /** Loses the answers: the rows are there, and the writer does not know. */
    answersAreLost: false,
    refused: 'refused',
    letGo() {
      table.held = false
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
  const state = new EventLogState(clock.now, { error: (_details, message) => lines.push(message) })
  const events = new EventLog({
    writer: 'a',
    state,
    table: state.counting({
      async write({ first, rows }) {
        const values: unknown[][] = rows.map((row) => JSON.parse(row))
        const keys = values.map(([, key]) => String(key))
        table.batches.push(rows.length)
        asked()
        if (table.held) await new Promise<void>((resolve) => waiting.push(resolve))
        if (table.failure !== undefined) throw table.failure
        if (keys.includes(table.refused)) throw new RangeError('the value is refused')
        if (first <= table.last) return Math.min(table.last - first + 1, rows.length)
        table.keys.push(...keys)
        table.counts.push(...values.map((row) => Number(row[6])))
        table.last = first + rows.length - 1
        if (table.answersAreLost) throw new Error('the connection broke')
        return rows.length
      },
      refusesRows: (error) => error instanceof RangeError,
    }),
    batchSize,
    maxGatherMs,
    bufferSize,
    now: clock.now,
  })
  return { events, table, lines, clock }
}

/** Lets what is due run, and what follows from it. */
async function tick(t: TestContext, ms: number): Promise<void> {
  t.mock.timers.tick(ms)
  for (let round = 0; round < 5; round++) await turn()
}

describe('the event log', () => {
  test('writes at once when it is idle, and gathers what comes while it writes', async () => {
    const { events, table } = logOf()
    table.held = true
    events.record(eventOf('a'))
    await turn()
    for (let index = 0; index < 50; index++) events.record(eventOf(`b${index}`))
    await turn()
    assert.deepEqual(table.batches, [1])
    table.letGo()
    await events.flush()
    assert.deepEqual(table.batches, [1, 50])
    assert.deepEqual(events.stats(), { written: 51, dropped: 0, buffered: 0, spooled: 0, lastError: null })
  })

  test('gathers for twenty times as long as the last events took, and no longer than is set', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let nowMs = 0
    t.mock.method(performance, 'now', () => nowMs)
    const { events, table } = logOf({ maxGatherMs: 500 })
    const pass = async (ms: number) => {
      nowMs += ms
      await tick(t, ms)
    }
    /** Records an event, which is written after a while, for a while. */
    const write = async (gathersMs: number, takesMs: number) => {
      const before = table.batches.length
      table.held = true
      events.record(eventOf('a'))
      await pass(0)
      if (gathersMs > 0) {
        await pass(gathersMs - 1)
        assert.equal(table.batches.length, before, `${gathersMs} ms`)
        await pass(1)
      }
      assert.equal(table.batches.length, before + 1, `${gathersMs} ms`)
      await pass(takesMs)
      table.letGo()
      await pass(0)
    }
    await write(0, 10)
    await write(190, 2)
    await write(38, 30)
    await write(470, 10)
    await pass(190)
    await write(0, 0)
  })

  test('gathers until there is a flush, or a quarter of the buffer is full', async (t) => {
    // Time passes only while the table is asked: it alone would end no gathering.
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let nowMs = 0
    t.mock.method(performance, 'now', () => nowMs)
    const { events, table } = logOf({
      maxGatherMs: 3_600_000,
      bufferSize: 12,
      asked: () => {
        nowMs += 1_000
      },
    })
    const record = async (...keys: string[]) => {
      for (const key of keys) {
        events.record(eventOf(key))
        await tick(t, 0)
      }
    }
    await record('a', 'b')
    assert.deepEqual(table.batches, [1])
    await events.flush()
    assert.deepEqual(table.batches, [1, 1])
    events.record(eventOf('c'))
    await events.flush()
    assert.deepEqual(table.batches, [1, 1, 1])
    await record('d', 'e')
    assert.deepEqual(table.batches, [1, 1, 1])
    await record('f')
    assert.deepEqual(table.batches, [1, 1, 1, 3])
    await record('g')
    await events.close()
    assert.deepEqual(table.keys, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  })

  test('lets the event loop run between two statements', async () => {
    const { events, table } = logOf({ batchSize: 1 })
    const seen: number[] = []
    for (const key of ['a', 'b', 'c']) events.record(eventOf(key))
    const flush = events.flush()
    for (let round = 0; round < 5; round++) {
      await turn()
      seen.push(table.batches.length)
    }
    await flush
    assert.ok(seen.includes(1) && seen.includes(2), `${seen}`)
  })

  test('writes what takes one statement in the order of the requests', async () => {
    const { events, table } = logOf({ batchSize: 3 })
    for (const key of ['c', 'a', 'b']) events.record(eventOf(key))
    await events.flush()
    assert.deepEqual(table.keys, ['c', 'a', 'b'])
  })

  test('takes at most 5,000 events from the buffer at once', async () => {
    const { events, table } = logOf({ bufferSize: 20_000, batchSize: 20_000 })
    for (let index = 0; index < 12_000; index++) events.record(eventOf('a'))
    await events.flush()
    assert.deepEqual(table.batches, [5_000, 5_000, 2_000])
  })

  test('writes what takes several statements by key, that of a key in its order, and a flush waits for all of it', async () => {
    const { events, table } = logOf({ batchSize: 2 })
    const paths: string[] = []
    const recordAt = (key: string, count: number) => events.record({ ...eventOf(key), count })
    recordAt('c', 1)
    recordAt('a"b', 10)
    const flush = events.flush().then(() => paths.push(...table.keys))
    recordAt('a', 2)
    recordAt('a"b', 9)
    recordAt('b', 3)
    recordAt('a', 1)
    await flush
    assert.deepEqual(paths, ['a', 'a', 'a"b', 'a"b', 'b', 'c'])
    assert.deepEqual(table.counts, [2, 1, 10, 9, 3, 1])
  })

  test('writes no more than 200 rows by one statement', async () => {
    const { events, table } = logOf()
    for (let index = 0; index < 450; index++) events.record(eventOf('a'))
    await events.flush()
    assert.deepEqual(table.batches, [200, 200, 50])
  })

  test('flushes what was recorded before, not what is recorded meanwhile', async () => {
    const { events } = logOf()
    events.record(eventOf('a'))
    let flushed = false
    const flush = events.flush().then(() => {
      flushed = true
    })
    for (let round = 0; round < 100 && !flushed; round++) {
      events.record(eventOf('b'))
      await turn()
    }
    assert.equal(flushed, true)
    await flush
    await events.flush()
  })

  test('flushes all it took although later events are dropped meanwhile', async () => {
    const { events, table } = logOf({ bufferSize: 400 })
    for (let index = 0; index < 400; index++) events.record(eventOf('a'))
    const flush = events.flush()
    for (let index = 0; index < 300; index++) events.record(eventOf('b'))
    await flush
    assert.deepEqual(table.batches, [200, 200])
    assert.equal(events.stats().written, 400)
  })

  test('holds no more of a request than the table takes', async () => {
    const written: number[] = []
    const events = new EventLog({
      writer: 'a',
      table: tableOf(async ({ rows }) => written.push(...rows.map((row) => row.length))),
      batchSize: 200,
      bufferSize: 10,
      now: Date.now,
      state: new EventLogState(Date.now, { error: () => assert.fail() }),
    })
    events.record({ ...eventOf('k'.repeat(15_000)), path: `/${'x'.repeat(15_000)}`, method: 'M'.repeat(500) })
    await events.flush()
    assert.ok(Number(written[0]) < 1_000, `${written[0]} characters`)
  })

  test('drops and counts what its buffer cannot hold', async () => {
    const { events, table, lines } = logOf({ bufferSize: 10 })
    table.held = true
    for (let index = 0; index < 25; index++) events.record(eventOf('a'))
    assert.deepEqual(events.stats(), {
      written: 0,
      dropped: 15,
      buffered: 10,
      spooled: 0,
      lastError: 'the buffer of 10 rows is full',
    })
    await turn()
    table.letGo()
    await events.flush()
    assert.equal(events.stats().written, 10)
    assert.equal(lines.length, 1)
  })

  test('keeps what could not be written, in its order, and tries it again after pauses that grow', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { events, table, lines } = logOf({ batchSize: 2 })
    table.failure = new Error('the database is away')
    for (const key of ['a', 'b', 'c']) events.record(eventOf(key))
    await tick(t, 0)
    const attempts = () => table.batches.length
    assert.equal(attempts(), 1)
    for (const pauseMs of [100, 200, 400, 800, 1_000, 1_000]) {
      const before = attempts()
      await tick(t, pauseMs - 1)
      assert.equal(attempts(), before, `${pauseMs} ms`)
      await tick(t, 1)
      assert.equal(attempts(), before + 1, `${pauseMs} ms`)
    }
    const buffered = { written: 0, dropped: 0, buffered: 3, spooled: 0, lastError: 'the database is away' }
    assert.deepEqual(events.stats(), buffered)
    assert.deepEqual(lines, ['Rate limit events cannot be written, and are kept for now'])

    table.failure = undefined
    events.record(eventOf('d'))
    await tick(t, 1_000)
    assert.deepEqual(table.keys, ['a', 'b', 'c', 'd'])
    assert.deepEqual(events.stats(), { ...buffered, written: 4, buffered: 0 })
  })

  test('a flush tries at once, and ends when the write fails', async () => {
    const { events, table } = logOf()
    table.failure = new Error('the database is away')
    events.record(eventOf('a'))
    await events.flush()
    await events.flush()
    assert.equal(table.batches.length, 2)
    assert.equal(events.stats().buffered, 1)
    table.failure = undefined
    await events.flush()
    assert.deepEqual(table.keys, ['a'])
  })

  test('writes nothing twice when only the answer was lost', async () => {
    const { events, table } = logOf({ batchSize: 2 })
    for (const key of ['a', 'b', 'c']) events.record(eventOf(key))
    table.answersAreLost = true
    await events.flush()
    table.answersAreLost = false
    events.record(eventOf('d'))
    await events.flush()
    assert.deepEqual(table.keys, ['a', 'b', 'c', 'd'])
    assert.equal(events.stats().written, 4)
  })

  test('drops and counts a row that the table refuses, and writes all others in their order', async () => {
    const { events, table, lines } = logOf({ batchSize: 16 })
    const isRefused = (index: number) => index % 20 === 7
    const keys = Array.from({ length: 50 }, (_, index) => (isRefused(index) ? table.refused : `k${index + 10}`))
    for (const key of keys) events.record(eventOf(key))
    await events.flush()
    assert.deepEqual(
      table.keys,
      keys.filter((key) => key !== table.refused),
    )
    const lastError = 'the value is refused'
    assert.deepEqual(events.stats(), { written: 47, dropped: 3, buffered: 0, spooled: 0, lastError })
    assert.deepEqual(lines, ['Rate limit events are being lost'])
  })

  test('what closing cannot write within some seconds is counted as lost', long(), async (t) => {
    const { events, table, lines } = logOf()
    table.failure = new Error('the database is away')
    events.record(eventOf('a'))
    await events.flush()
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const closed = events.close()
    for (let round = 0; round < 40; round++) await tick(t, 100)
    await closed
    assert.deepEqual(events.stats(), {
      written: 0,
      dropped: 1,
      buffered: 0,
      spooled: 0,
      lastError: 'the database is away',
    })
    assert.equal(lines.at(-1), 'Rate limit events are being lost')
    assert.ok(table.batches.length > 5, `${table.batches.length} attempts`)
  })

  test('closing writes what the database takes again in time', async () => {
    const { events, table } = logOf()
    table.failure = new Error('the database is away')
    events.record(eventOf('a'))
    await events.flush()
    const closed = events.close()
    await turn()
    table.failure = undefined
    await closed
    assert.deepEqual(table.keys, ['a'])
    assert.equal(events.stats().dropped, 0)
  })

  test('logs failures at most once a minute', async () => {
    const { events, table, lines, clock } = logOf()
    table.failure = new Error('the database is away')
    for (let round = 0; round < 5; round++) {
      events.record(eventOf('a'))
      await events.flush()
    }
    assert.equal(lines.length, 1)
    clock.advance(60_000)
    await events.flush()
    assert.equal(lines.length, 2)
    table.failure = undefined
    await events.flush()
    assert.equal(events.stats().written, 5)
  })
})

describe('a text for a column', () => {
  for (const [text, stored] of [
    ['plain', 'plain'],
    ['a\0b', 'ab'],
    ['0123456789x', '0123456789'],
    ['012345678😀', '012345678\ufffd'],
    ['\ud800', '\ufffd'],
  ] as const) {
    test(`of 10 characters takes ${JSON.stringify(text)} as ${JSON.stringify(stored)}`, () =>
      assert.equal(storable(text, 10), stored))
  }
})
