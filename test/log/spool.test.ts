/** The folder that takes the events which the database does not. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import type { BatchTable } from '../../src/log/batch-table.js'
import { eventValues } from '../../src/log/event.js'
import { EventLog } from '../../src/log/event-log.js'
import { EventLogState } from '../../src/log/event-log-state.js'
import type { RecordLogOptions } from '../../src/log/record-log.js'
import { openSpoolFolder } from '../../src/log/spool-folder.js'
import { SpooledTable, type SpooledTableOptions } from '../../src/log/spooled-table.js'
import { atEnd } from '../support/at-end.js'
import { fakeClock } from '../support/clock.js'
import { EVENT } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

function openFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A table of the log that can go away; it keeps the rows, and the counts of the events. */
function openTable() {
  const last = new Map<string, number>()
  const table = {
    rows: [] as string[],
    counts: [] as number[],
    isAway: false,
    attempts: 0,
    answered: Promise.resolve(),
  }
  const events: BatchTable = {
    async write({ writer, first, rows }) {
      table.attempts++
      await table.answered
      if (table.isAway) throw new Error('the database is away')
      const known = last.get(writer) ?? 0
      if (first <= known) return Math.min(known - first + 1, rows.length)
      last.set(writer, first + rows.length - 1)
      table.rows.push(...rows)
      table.counts.push(...rows.map((row) => Number(JSON.parse(row)[6])))
      return rows.length
    },
    refusesRows: () => false,
  }
  return Object.assign(table, { events })
}

function openLog(
  t: TestContext,
  folder: string,
  table: ReturnType<typeof openTable>,
  options: Partial<
    Pick<RecordLogOptions & SpooledTableOptions, 'bufferSize' | 'maxSpoolBytes' | 'maxGatherMs' | 'now'>
  > = {},
) {
  const opened = openSpoolFolder(folder)
  const { writer } = opened
  const { now = fakeClock().now, maxSpoolBytes, ...others } = options
  const lines: string[] = []
  const state = new EventLogState(now, { error: (_details, message) => lines.push(message) })
  const spooled = new SpooledTable({
    table: table.events,
    folder: opened,
    batchSize: 50,
    ...(maxSpoolBytes === undefined ? {} : { maxSpoolBytes }),
    state,
  })
  const log = new EventLog({ writer, table: spooled, batchSize: 50, bufferSize: 100, now, state, ...others })
  atEnd(t, () => log.close())
  return { log, lines, writer, replayed: () => spooled.replayed }
}

function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1)
}

function toRows(counts: readonly number[]): string[] {
  return counts.map((count) => JSON.stringify(eventValues({ ...EVENT, count })))
}

/** Leaves a file as a process that was killed does. */
function leaveFile(folder: string, text: string | Buffer, { writer = randomUUID(), first = 1 } = {}): string {
  const name = `${writer}-${String(first).padStart(16, '0')}.events`
  writeFileSync(join(folder, name), text)
  return name
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
  const folder = openFolder(t)
  const { log, lines } = openLog(t, folder, table, { bufferSize: 20 })
  rmSync(folder, { recursive: true })
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
  await eventually('the spool refuses', () => lines.includes('Rate limit events cannot be spooled'))
  record(14, 15)
  answer()
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

test('what closing cannot write stays in the folder, and the next process writes it', long(), async (t) => {
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
  const rows = toRows(countTo(120))
  await table.events.write({ writer: dead, first: 1, rows: rows.slice(0, 70) })
  leaveFile(folder, `${rows.join('\n')}\n`, { writer: dead })

  const { log } = openLog(t, folder, table)
  await eventually('it is written', () => log.stats().written === 120)
  assert.deepEqual(table.counts, countTo(120))
})

test('a file of an earlier version, whose rows lack the last column, is written', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const rows = toRows(countTo(3))
  leaveFile(folder, `${rows.map((row) => row.replace(/,""\]$/, ']')).join('\n')}\n`)
  const { log } = openLog(t, folder, table)
  await eventually('it is written', () => log.stats().written === 3)
  assert.deepEqual(table.rows, rows)
})

const [ROW = ''] = toRows([1])
const BROKEN: readonly (readonly [name: string, line: string | Buffer])[] = [
  ['four bytes of NUL', ROW.replace('"GET', '\0\0\0\0')],
  ['nothing but NULs', '\0'.repeat(5_000)],
  [
    'what is no UTF-8',
    Buffer.concat([Buffer.from(ROW.slice(0, -20)), Buffer.from([0xff, 0xfe]), Buffer.from(ROW.slice(-20))]),
  ],
  ['nothing', ''],
  ['half of a row', ROW.slice(0, 40)],
  ['an object', '{"key":"ip:203.0.113.7"}'],
  ['an empty array', '[]'],
  ['a column too many', `${ROW.slice(0, -1)},1]`],
  ['a text as the time', ROW.replace('[0,', '["now",')],
  ['a key that is null', ROW.replace('"ip:203.0.113.7"', 'null')],
  ['an array as the path', ROW.replace('"/"', `${'['.repeat(5_000)}${']'.repeat(5_000)}`)],
  ['a NUL that is escaped', ROW.replace('"/"', '"/\\u0000"')],
  ['a path of a megabyte', ROW.replace('"/"', `"/${'a'.repeat(1_000_000)}"`)],
]

for (const [name, line] of BROKEN) {
  test(`a line of ${name} is lost alone: it is counted, logged and kept, and all others are written`, async (t) => {
    const folder = openFolder(t)
    const table = openTable()
    const [before, after] = [toRows(countTo(3)), toRows([5, 6])].map((rows) => `${rows.join('\n')}\n`)
    const file = leaveFile(folder, Buffer.concat([before, line, `\n${after}`].map((part) => Buffer.from(part ?? ''))))

    const { log, lines, writer } = openLog(t, folder, table)
    await eventually('the file is gone', () => !readdirSync(folder).includes(file))
    assert.deepEqual(table.counts, [1, 2, 3, 5, 6])
    const { written, dropped, spooled, lastError } = log.stats()
    assert.deepEqual({ written, dropped, spooled }, { written: 5, dropped: 1, spooled: 0 })
    assert.deepEqual(lines, ['Rate limit events are being lost'])
    assert.match(String(lastError), new RegExp(`^1 event.*${file}.*see ${file}.unreadable$`))
    assert.deepEqual(
      readFileSync(join(folder, `${file}.unreadable`)),
      Buffer.from(Buffer.concat([Buffer.from(line), Buffer.from('\n')])),
    )
    assert.equal(statSync(join(folder, `${file}.unreadable`)).mode & 0o777, 0o600)

    await log.close()
    const next = openLog(t, folder, table)
    await next.replayed()
    assert.deepEqual(next.lines, [])
    assert.deepEqual(readdirSync(folder).sort(), [`${file}.unreadable`, `${next.writer}.lock`].sort())
    assert.notEqual(next.writer, writer)
  })
}

test('a last line that a crash cut off is counted as lost, and one that lacks only its end is written', async (t) => {
  for (const [tail, counts, lost] of [
    [ROW.slice(0, 20), [1, 2], 1],
    [toRows([3])[0] ?? '', [1, 2, 3], 0],
    ['', [1, 2], 0],
  ] as const) {
    const folder = openFolder(t)
    const table = openTable()
    const file = leaveFile(folder, `${toRows([1, 2]).join('\n')}\n${tail}`)
    const { log, replayed } = openLog(t, folder, table)
    await replayed()
    assert.deepEqual(table.counts, counts)
    assert.deepEqual([log.stats().dropped, log.stats().spooled], [lost, 0])
    assert.equal(readdirSync(folder).includes(`${file}.unreadable`), lost > 0)
  }
})

test('a file of a dead process that vanishes is counted as lost, and what follows it is written', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const writer = randomUUID()
  const vanishing = leaveFile(folder, `${toRows([1]).join('\n')}\n`, { writer })
  leaveFile(folder, `${toRows([2, 3]).join('\n')}\n`, { writer, first: 2 })
  const { log, replayed } = openLog(t, folder, table)
  rmSync(join(folder, vanishing))

  await replayed()
  assert.deepEqual(table.counts, [2, 3])
  const { written, dropped, spooled } = log.stats()
  assert.deepEqual({ written, dropped, spooled }, { written: 2, dropped: 1, spooled: 0 })
})

test('what follows broken lines is not written again where the dead process had written it', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const dead = randomUUID()
  const rows = toRows(countTo(120))
  await table.events.write({ writer: dead, first: 1, rows: rows.slice(0, 70) })
  const lines = rows.map((row, index) => ([40, 90].includes(index) ? '\0' : row))
  leaveFile(folder, `${lines.join('\n')}\n`, { writer: dead })
  leaveFile(folder, '', { writer: dead, first: 121 })

  const { log, replayed } = openLog(t, folder, table)
  await replayed()
  assert.deepEqual(
    table.counts,
    countTo(120).filter((count) => count !== 91),
  )
  assert.equal(log.stats().dropped, 2)
})

for (const [name, breakFile, lost] of [
  ['has a broken line', (path: string) => writeFileSync(path, readFileSync(path).fill(0, 1_010, 1_014)), 1],
  [
    'cannot be read at all',
    (path: string) => {
      rmSync(path)
      mkdirSync(path)
    },
    49,
  ],
] as const) {
  test(`of a process's own file that ${name} nothing else is lost, and nothing is deleted`, async (t) => {
    const folder = openFolder(t)
    const table = openTable()
    table.isAway = true
    const { log, lines } = openLog(t, folder, table)
    // The first one is what is being written, and stays in memory.
    await spool(log, [1])
    await spool(log, countTo(50).slice(1))
    const [, file = ''] = readdirSync(folder)
      .filter((each) => each.endsWith('.events'))
      .sort()
    breakFile(join(folder, file))

    table.isAway = false
    log.record({ ...EVENT, count: 51 })
    await log.flush()
    await eventually('all is settled', () => log.stats().written + log.stats().dropped === 51)
    const { written, dropped, buffered, spooled } = log.stats()
    assert.deepEqual(
      { written, dropped, buffered, spooled },
      { written: 51 - lost, dropped: lost, buffered: 0, spooled: 0 },
    )
    assert.ok(lines.includes('Rate limit events are being lost'))
    await eventually('it is kept', () => readdirSync(folder).includes(`${file}.unreadable`))
    assert.ok(!readdirSync(folder).includes(file))
  })
}

test('events go to the spool when they are a second old, although the database may yet answer', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const clock = fakeClock()
  let answer: () => void = () => undefined
  table.answered = new Promise((resolve) => {
    answer = resolve
  })
  const { log, lines } = openLog(t, folder, table, { now: clock.now })
  // Fewer than half of the buffer.
  for (const count of countTo(40)) log.record({ ...EVENT, timestampMs: clock.now() - 1_000, count })
  await eventually('all are in the spool', () => log.stats().spooled === 40)
  assert.deepEqual([table.attempts, table.counts, lines], [1, [], []])

  log.record({ ...EVENT, timestampMs: clock.now(), count: 41 })
  await eventually('so is what comes then', () => log.stats().spooled === 41)
  answer()
  await log.flush()
  assert.deepEqual(table.counts, countTo(41))
  assert.deepEqual([log.stats().written, log.stats().spooled, log.stats().dropped], [41, 0, 0])
  await eventually('the files are gone', () => readdirSync(folder).length === 1)
})

test('events wait for the last file while it is being written, and go past the spool', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  const clock = fakeClock()
  const answers: (() => void)[] = []
  const hang = () => {
    table.answered = new Promise((resolve) => answers.push(resolve))
  }
  hang()
  const { log } = openLog(t, folder, table, { now: clock.now })
  for (const count of countTo(40)) log.record({ ...EVENT, timestampMs: clock.now() - 1_000, count })
  await eventually('all are in the spool', () => log.stats().spooled === 40)
  hang()
  answers[0]?.()
  await eventually('the file is being written', () => table.attempts === 2)

  log.record({ ...EVENT, timestampMs: clock.now(), count: 41 })
  // For as long as the disk takes to append a group, and longer.
  for (let round = 0; round < 10; round++) await writeFile(join(folder, 'notes'), '', { flush: true })
  assert.deepEqual([log.stats().buffered, log.stats().spooled], [1, 40])
  answers[1]?.()
  await log.flush()
  assert.deepEqual(table.counts, countTo(41))
  assert.equal(table.attempts, 3)
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

const planted = randomUUID()
const NAMES = [`${planted}-0000000000000001.events`, `${planted}.lock`] as const
const PLANTED: readonly (readonly [what: string, plant: (folder: string) => void])[] = [
  ['that all may write to', (folder) => chmodSync(folder, 0o777)],
  ['that the group may write to', (folder) => chmodSync(folder, 0o770)],
  ...NAMES.flatMap((name): (typeof PLANTED)[number][] => [
    [`with a link named ${name}`, (folder) => symlinkSync(join(folder, 'elsewhere'), join(folder, name))],
    [
      `with a second name of a file as ${name}`,
      (folder) => {
        writeFileSync(join(folder, 'other'), '', { mode: 0o600 })
        linkSync(join(folder, 'other'), join(folder, name))
      },
    ],
    [
      `with ${name}, which all may write to`,
      (folder) => {
        writeFileSync(join(folder, name), '')
        chmodSync(join(folder, name), 0o666)
      },
    ],
    [`with a folder named ${name}`, (folder) => mkdirSync(join(folder, name))],
  ]),
]

describe('the folder is refused', { skip: process.platform === 'win32' && 'modes mean nothing on Windows' }, () => {
  for (const [what, plant] of PLANTED) {
    test(`${what.replace(planted, '<writer>')}: nothing of it is obeyed, and nothing is made through it`, (t) => {
      const folder = openFolder(t)
      plant(folder)
      const before = readdirSync(folder)
      assert.throws(
        () => openSpoolFolder(folder),
        (error: Error) =>
          error.message.startsWith(`Setting "eventSpool" is "${folder}", wh`) &&
          /chmod 700|delete it/.test(error.message),
      )
      assert.deepEqual(readdirSync(folder), before)
    })
  }

  test('which others may read only is used, and files of other names are left alone', (t) => {
    const folder = openFolder(t)
    chmodSync(folder, 0o755)
    symlinkSync('/nowhere', join(folder, 'notes'))
    const opened = openSpoolFolder(folder)
    atEnd(t, () => opened.close())
    assert.ok(readdirSync(folder).includes(`${opened.writer}.lock`))
  })
})

test('a process writes through no link that takes the name of its file', async (t) => {
  const folder = openFolder(t)
  const table = openTable()
  table.isAway = true
  const { log, lines, writer } = openLog(t, folder, table)
  symlinkSync(join(folder, 'elsewhere'), join(folder, `${writer}-0000000000000001.events`))
  log.record({ ...EVENT, count: 1 })
  await eventually('the log says so', () => lines.includes('Rate limit events cannot be spooled'))
  assert.equal(existsSync(join(folder, 'elsewhere')), false)
  table.isAway = false
  await log.flush()
  assert.deepEqual(table.counts, [1])
})

test('a folder that cannot be used is refused with its name and a remedy', (t) => {
  const folder = openFolder(t)
  const file = join(folder, 'file')
  writeFileSync(file, '')
  chmodSync(file, 0o600)
  for (const path of [file, join(file, 'below')]) {
    assert.throws(
      () => openSpoolFolder(path),
      (error: Error) =>
        error.message.startsWith(`Setting "eventSpool" is "${path}"`) && /local folder/.test(error.message),
    )
  }
})
