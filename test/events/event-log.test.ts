import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storable } from '../../src/db/storable.js'
import type { RateLimitEvent } from '../../src/events/event.js'
import { EventLog } from '../../src/events/event-log.js'
import { fakeClock } from '../support/clock.js'
import { EVENT } from '../support/events.js'

function eventOf(key: string): RateLimitEvent {
  return { ...EVENT, key }
}

/** A table whose writing can be held up and made to fail. */
function logOf({ bufferSize = 1_000 } = {}) {
  const clock = fakeClock()
  const lines: string[] = []
  const waiting: (() => void)[] = []
  const table = {
    batches: [] as number[],
    held: false,
    failure: undefined as Error | undefined,
    letGo() {
      table.held = false
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
  const events = new EventLog({
    async write(rowsJson) {
      const rows: unknown = JSON.parse(rowsJson)
      table.batches.push(Array.isArray(rows) ? rows.length : -1)
      if (table.held) await new Promise<void>((resolve) => waiting.push(resolve))
      if (table.failure !== undefined) throw table.failure
    },
    batchSize: 200,
    bufferSize,
    now: clock.now,
    log: { error: (_details, message) => lines.push(message) },
  })
  return { events, table, lines, clock }
}

describe('the event log', () => {
  test('writes at once when it is idle, and gathers what comes while it writes', async () => {
    const { events, table } = logOf()
    table.held = true
    events.record(eventOf('a'))
    await turn()
    for (let place = 0; place < 50; place++) events.record(eventOf(`b${place}`))
    await turn()
    assert.deepEqual(table.batches, [1])
    table.letGo()
    await events.flush()
    assert.deepEqual(table.batches, [1, 50])
    assert.deepEqual(events.stats(), { written: 51, dropped: 0, buffered: 0, lastError: null })
  })

  test('writes no more than 200 rows by one statement', async () => {
    const { events, table } = logOf()
    for (let place = 0; place < 450; place++) events.record(eventOf('a'))
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
    for (let place = 0; place < 400; place++) events.record(eventOf('a'))
    const flush = events.flush()
    for (let place = 0; place < 300; place++) events.record(eventOf('b'))
    await flush
    assert.deepEqual(table.batches, [200, 200])
    assert.equal(events.stats().written, 400)
  })

  test('holds no more of a request than the table takes', async () => {
    const written: number[] = []
    const events = new EventLog({
      write: async (rowsJson) => written.push(rowsJson.length),
      batchSize: 200,
      bufferSize: 10,
      now: Date.now,
      log: { error: () => assert.fail() },
    })
    events.record({ ...eventOf('k'.repeat(15_000)), path: `/${'x'.repeat(15_000)}`, method: 'M'.repeat(500) })
    await events.flush()
    assert.ok(Number(written[0]) < 1_000, `${written[0]} characters`)
  })

  test('drops and counts what its buffer cannot hold', async () => {
    const { events, table, lines } = logOf({ bufferSize: 10 })
    table.held = true
    for (let place = 0; place < 25; place++) events.record(eventOf('a'))
    assert.deepEqual(events.stats(), {
      written: 0,
      dropped: 15,
      buffered: 10,
      lastError: 'the buffer of 10 events is full',
    })
    await turn()
    table.letGo()
    await events.flush()
    assert.equal(events.stats().written, 10)
    assert.equal(lines.length, 1)
  })

  test('goes on after a write that failed, and logs failures at most once a minute', async () => {
    const { events, table, lines, clock } = logOf()
    table.failure = new Error('disk full')
    for (let round = 0; round < 5; round++) {
      events.record(eventOf('a'))
      await events.flush()
    }
    assert.equal(lines.length, 1)
    clock.advance(60_000)
    events.record(eventOf('a'))
    await events.flush()
    assert.equal(lines.length, 2)
    table.failure = undefined
    events.record(eventOf('a'))
    await events.flush()
    assert.deepEqual(events.stats(), { written: 1, dropped: 6, buffered: 0, lastError: 'disk full' })
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
