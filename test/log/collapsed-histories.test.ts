/**
 * Random histories of logs with fewer rows: whatever befalls the database, the process and the clock, they have every
 * request of a full log that was not lost with the memory of a killed process.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Database } from '../../src/database/database.js'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import { type BatchTable, createBatchTable } from '../../src/log/batch-table.js'
import type { EventDetail } from '../../src/log/collapsing-buffer.js'
import { EVENT_ROWS, eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import { EventLog } from '../../src/log/event-log.js'
import { EventLogState } from '../../src/log/event-log-state.js'
import { openSpoolFolder } from '../../src/log/spool-folder.js'
import { SpooledTable } from '../../src/log/spooled-table.js'
import { fakeClock } from '../support/clock.js'
import { compareReports } from '../support/compare-reports.js'
import { forEachDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'
import { COLLAPSED, clearLog, requestsBefore, requestsIn, SUMS, toRecorded } from '../support/request-histories.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)

/** The state of the database during a round, and what follows it. */
const round = fc.record({
  process: fc.constantFrom(0, 1),
  events: fc.array(requestsBefore(NOW_MS), { minLength: 1, maxLength: 40 }),
  // Back and forth, also across a minute.
  stepMs: fc.constantFrom(0, 0, 1, 700, -1, -700, MINUTE_MS, -MINUTE_MS),
  fault: fc.constantFrom('none', 'none', 'away', 'lost answer'),
  end: fc.constantFrom('none', 'flush', 'kill'),
  lost: fc.array(requestsBefore(NOW_MS), { maxLength: 5 }),
})
const history = fc.array(round, { minLength: 2, maxLength: 8 })
type Round = typeof round extends fc.Arbitrary<infer Value> ? Value : never

/** A database that is away, or whose answers are lost, for all processes. */
function faultyTable(database: Database) {
  const table = createBatchTable(database.log, fakeClock(NOW_MS), true, EVENT_ROWS)
  const faults = { now: 'none' as Round['fault'] }
  return {
    faults,
    table: {
      ...table,
      async write(batch) {
        const { now } = faults
        if (now === 'away') throw new Error('the database is away')
        const written = await table.write(batch)
        if (now === 'lost answer') throw new Error('the connection broke')
        return written
      },
    } satisfies BatchTable,
  }
}

const never = new Promise<never>(() => undefined)

/** A process that logs. */
function startProcess(folder: string, faulty: ReturnType<typeof faultyTable>, detail: EventDetail) {
  let isKilled = false
  const now = fakeClock(NOW_MS).now
  const opened = openSpoolFolder(folder)
  const state = new EventLogState(now, { error: () => undefined })
  /** Of a process that was killed, nothing is written any more, and no answer arrives. */
  const whileAlive =
    (write: BatchTable['write']): BatchTable['write'] =>
    (batch, urgent) =>
      isKilled ? never : write(batch, urgent).finally(() => (isKilled ? never : undefined))
  const { table } = faulty
  const spooled = new SpooledTable({
    table: { ...table, write: whileAlive(table.write) },
    folder: opened,
    batchSize: 7,
    state,
  })
  let hasReplayed = false
  void spooled.replayed.then(() => {
    hasReplayed = true
  })
  const write = whileAlive((batch, urgent) => spooled.write(batch, urgent))
  const alive: BatchTable = {
    write,
    refusesRows: (error) => spooled.refusesRows(error),
    flush: () => spooled.flush(),
    close: () => spooled.close(),
  }
  const log = new EventLog({ writer: opened.writer, table: alive, batchSize: 7, bufferSize: 1_000, now, state }, detail)
  return {
    log,
    /** Resolves when the table has everything, or at least the disk while the database is not itself. */
    async settle() {
      const isBack = faulty.faults.now === 'none'
      await eventually('all is written or spooled', () => {
        const isWritten = hasReplayed && spooled.oldestMs === undefined
        return log.stats().buffered === 0 && (isWritten || !isBack)
      })
    },
    /** Ends the process's locks, and all that it does. */
    kill() {
      isKilled = true
      opened.close()
    },
  }
}

/** Serves a history, and returns the requests that the log has to have, each with the process that served it. */
async function serve(database: Database, rounds: readonly Round[], detail: EventDetail): Promise<RateLimitEvent[]> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-histories-'))
  const faulty = faultyTable(database)
  const start = () => startProcess(folder, faulty, detail)
  const processes = [start(), start()]
  const kept: RateLimitEvent[] = []
  let skewMs = 0
  for (const { process, events, stepMs, fault, end, lost } of rounds) {
    const running = processes[process] ?? start()
    skewMs += stepMs
    const served = (event: RateLimitEvent) => ({ ...event, timestampMs: event.timestampMs + skewMs })
    faulty.faults.now = fault
    for (const event of events) running.log.record(toRecorded(served(event), detail))
    kept.push(...events.map(served))
    for (const { settle } of processes) await settle()
    if (end === 'flush') await running.log.flush()
    if (end === 'kill') {
      // These are in its memory alone.
      for (const event of lost) running.log.record(toRecorded(served(event), detail))
      running.kill()
    }
    if (end === 'kill') processes[process] = start()
  }
  faulty.faults.now = 'none'
  for (const { log, settle } of processes) {
    await log.flush()
    await settle()
    assert.equal(log.stats().dropped, 0)
    await log.close()
  }
  assert.deepEqual(await readdir(folder), [])
  await rm(folder, { recursive: true })
  return kept
}

forEachDatabase((_provider, open) => {
  for (const [name, detail] of [
    ['a collapsed log', COLLAPSED],
    ['a log with sums', SUMS],
  ] as const) {
    test(
      `${name} has every request once, through outages, lost answers, kills, replays of two processes and clock steps`,
      long(),
      async (t) => {
        const { database, close } = await open(fakeClock(NOW_MS))
        t.after(close)
        await fc.assert(
          fc.asyncProperty(history, async (rounds) => {
            await clearLog(database)
            const kept = await serve(database, rounds, detail)
            const found = await requestsIn(database, detail)
            await compareReports(database, NOW_MS, 1, { rule: 'b' })
            await clearLog(database)
            const { log } = database
            await log.execute(insertEventsSql(log.dialect), [JSON.stringify(kept.map(eventValues))])
            assert.deepEqual(found, await requestsIn(database, detail))
          }),
          { numRuns: 15, endOnFailure: true },
        )
      },
    )
  }
})
