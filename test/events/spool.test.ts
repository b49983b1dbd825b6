/** The folder that takes the events which the database does not. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { appendFileSync, chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { EventTable } from '../../src/events/event.js'
import { EventLog } from '../../src/events/event-log.js'
import { openSpools } from '../../src/events/spool.js'
import { atEnd } from '../support/at-end.js'
import { fakeClock } from '../support/clock.js'
import { EVENT } from '../support/events.js'
import { eventually } from '../support/eventually.js'

function openFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A table of the log that can go away; it keeps the counts of the events. */
function openTable() {
  const last = new Map<string, number>()
  const table = { counts: [] as number[], isAway: false, attempts: 0, answered: Promise.resolve() }
  const events: EventTable = {
    async write({ writer, first, rows }) {
      table.attempts++
      await table.answered
      if (table.isAway) throw new Error('the database is away')
      if (first <= (last.get(writer) ?? 0)) return false
      last.set(writer, first + rows.length - 1)
      table.counts.push(...rows.map((row) => Number(JSON.parse(row)[6])))
      return true
    },
    lastWritten: async (writer) => last.get(writer) ?? 0,
    refusesRows: () => false,
  }
  return Object.assign(table, { events })
}

function openLog(
  t: TestContext,
  folder: string,
  table: ReturnType<typeof openTable>,
  options: { readonly bufferSize?: number; readonly maxSpoolBytes?: number; readonly maxGatherMs?: number } = {},
) {
  const spools = openSpools(folder)
  const lines: string[] = []
  const log = new EventLog({
    writer: spools.own.writer,
    spools,
    table: table.events,
    batchSize: 50,
    bufferSize: 100,
    ...options,
    now: fakeClock().now,
    log: { error: (_details, message) => lines.push(message) },
  })
  atEnd(t, () => log.close())
  return { log, lines, spools, writer: spools.own.writer }
}

function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, place) => place + 1)
}

/** Records events with these counts, and waits until the spool has taken them. */
async function spool(log: EventLog, counts: readonly number[]): Promise<void> {
  const before = log.stats().spooled
  for (const count of counts) {
    log.record({ ...EVENT, count })
    if (count % 50 === 0) {
      await eventually('there is room', () => log.stats().buffered === 0 || log.stats().spooled === before + count)
    }
  }
  await eventually('all is spooled', () => log.stats().buffered === 0)
}

test('events in files do not wait for others to gather', async (t) => {
  const started = performance.now()
  const { now } = performance
  // Whatever is written takes long, and so what follows it would gather for long.
  t.mock.method(performance, 'now', () => started + (now.call(performance) - started) * 10_000)
  const table = openTable()
  const { log } = openLog(t, openFolder(t), table, { maxGatherMs: 3_600_000 })
  table.isAway = true
  await spool(log, countTo(20))
  table.isAway = false
  await eventually('all are written', () => log.stats().written === 20)
  assert.deepEqual(table.counts, countTo(20))
})

test('events that the spool refuses are written before later ones, and none is lost', async (t) => {
  const table = openTable()
  const { log, spools } = openLog(t, openFolder(t), table, { bufferSize: 20 })
  let refuse: (error: Error) => void = () => undefined
  const append = () =>
    new Promise<void>((_resolve, reject) => {
      refuse = reject
    })
  t.mock.method(spools.own, 'append', append)
  const record = (...counts: number[]) => {
    for (const count of counts) log.record({ ...EVENT, count })
  }
  let answer: () => void = () => undefined
  table.answered = new Promise((resolve) => {
    answer = resolve
  })
  record(1)
  await eventually('the first one is being written', () => table.attempts === 1)
  record(...countTo(13).slice(1))
  await eventually('the spool is asked', () => refuse.length === 1)
  record(14, 15)
  answer()
  await eventually('the first one is written', () => log.stats().written === 1)
  refuse(new Error('no space left'))
  await eventually('all are written', () => log.stats().written === 15)
  assert.deepEqual(table.counts, countTo(15))
})

test('events that cannot be written go to files for the owner alone, and from there to the table, in their order', async (t) => {
  const folder = join(openFolder(t), 'made', 'here')
  const table = openTable()
  table.isAway = true
  const { log, lines, writer } = openLog(t, folder, table)
  await spool(log, countTo(1_000))

  assert.deepEqual(log.stats(), {
    written: 0,
    dropped: 0,
    buffered: 0,
    spooled: 1_000,
    lastError: 'the database is away',
  })
  assert.deepEqual(lines, ['Rate limit events cannot be written, and are kept for now'])
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  const names = readdirSync(folder)
  assert.ok(names.length > 1)
  for (const name of names) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name)

  table.isAway = false
  log.record({ ...EVENT, count: 1_001 })
  await log.flush()
  assert.deepEqual(table.counts, countTo(1_001))
  await eventually('the files are gone', () => readdirSync(folder).length === 1)
  assert.deepEqual(readdirSync(folder), [`${writer}.lock`])
  await log.close()
  assert.deepEqual(readdirSync(folder), [])
})

test('what closing cannot write stays in the folder, and the next process writes it', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  table.isAway = true
  const { log } = openLog(t, folder, table)
  for (const count of countTo(60)) log.record({ ...EVENT, count })
  await log.close()
  assert.equal(log.stats().spooled, 60)
  assert.equal(log.stats().dropped, 0)
  log.record({ ...EVENT, count: 61 })
  assert.equal(log.stats().dropped, 1)

  table.isAway = false
  const { log: next } = openLog(t, folder, table)
  await eventually('it is written', () => next.stats().written === 60)
  assert.deepEqual(table.counts, countTo(60))
  assert.equal(next.stats().spooled, 0)
})

test('a process writes nothing again that a dead one had written before it could delete the file', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const dead = randomUUID()
  const rows = countTo(120).map((count) => `[0,"k","","/","GET",true,${count}]`)
  await table.events.write({ writer: dead, first: 1, rows: rows.slice(0, 70) })
  writeFileSync(join(folder, `${dead}-${'1'.padStart(16, '0')}.events`), `${rows.join('\n')}\n`)

  const { log } = openLog(t, folder, table)
  await eventually('it is written', () => log.stats().written === 120)
  assert.deepEqual(table.counts, countTo(120))
})

test('a last line that a crash cut off is left out', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const path = join(folder, `${randomUUID()}-${'1'.padStart(16, '0')}.events`)
  writeFileSync(path, '[0,"k","","/","GET",true,1]\n[0,"k","","/","GET",true,2]\n')
  appendFileSync(path, '[0,"k","","/","GE')

  const { log } = openLog(t, folder, table)
  await eventually('they are written', () => log.stats().written === 2)
  assert.deepEqual(table.counts, [1, 2])
  await eventually('the files are gone', () => readdirSync(folder).length === 1)
})

test('a process leaves alone what another one has in the folder that lives', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  table.isAway = true
  const first = openLog(t, folder, table)
  await spool(first.log, countTo(50))
  const second = openLog(t, folder, table)
  await spool(second.log, countTo(10))
  assert.deepEqual([first.log.stats().spooled, second.log.stats().spooled], [50, 10])

  table.isAway = false
  await Promise.all([first.log.flush(), second.log.flush()])
  assert.equal(table.counts.length, 60)
  assert.deepEqual([first.log.stats().written, second.log.stats().written], [50, 10])
})

test('a spool that is full leaves events to the buffer, and a buffer that is full too loses and counts them', async (t) => {
  const table = openTable()
  table.isAway = true
  const { log, lines } = openLog(t, openFolder(t), table, { maxSpoolBytes: 1_000 })
  await spool(log, countTo(50))
  for (const count of countTo(130)) log.record({ ...EVENT, count: count + 50 })
  const { buffered, spooled, dropped } = log.stats()
  assert.deepEqual({ buffered, spooled, dropped }, { buffered: 100, spooled: 50, dropped: 30 })
  await eventually('the log says so', () => lines.length === 3)

  table.isAway = false
  await log.flush()
  assert.deepEqual(table.counts, countTo(150))
})

test('a folder that breaks leaves events to the buffer, until it is whole again', async (t) => {
  const parent = openFolder(t)
  const folder = join(parent, 'spool')
  const table = openTable()
  table.isAway = true
  const { log, lines } = openLog(t, folder, table)
  rmSync(folder, { recursive: true })
  for (const count of countTo(80)) log.record({ ...EVENT, count })
  await eventually('the log says so', () => lines.includes('Rate limit events cannot be spooled'))
  const { buffered, spooled, dropped } = log.stats()
  assert.deepEqual({ buffered, spooled, dropped }, { buffered: 80, spooled: 0, dropped: 0 })

  table.isAway = false
  await log.flush()
  assert.deepEqual(table.counts, countTo(80))
})

test('a folder that cannot be used is refused with its name and a remedy', (t) => {
  const folder = openFolder(t)
  const file = join(folder, 'file')
  writeFileSync(file, '')
  chmodSync(file, 0o600)
  for (const path of [file, join(file, 'below')]) {
    assert.throws(
      () => openSpools(path),
      (error: Error) =>
        error.message.startsWith(`Setting "eventSpool" is "${path}"`) && /local folder/.test(error.message),
    )
  }
})
