import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedReports } from '../../../src/staff/dashboard/shared-reports.js'
import { fakeClock } from '../../support/clock.js'

/** Longer than any report of these tests is shared. */
const LATER_MS = 600_000

function counting() {
  let reads = 0
  return { read: async () => ++reads, reads: () => reads }
}

test('pages that follow at the same time share one report, and the next is read when it is old', async () => {
  const clock = fakeClock()
  const shared = new SharedReports<number>(clock)
  const { read, reads } = counting()
  const pages = () => Promise.all(Array.from({ length: 20 }, () => shared.read('week', true, read)))

  assert.deepEqual(new Set((await pages()).map(({ result }) => result)), new Set([1]))
  clock.advance(4_999)
  await pages()
  assert.equal(reads(), 1)
  clock.advance(LATER_MS)
  await pages()
  assert.equal(reads(), 2)
})

test('a report is shared however long reading it took, to a fraction of a millisecond', async (t) => {
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  for (let fraction = 1; fraction < 100; fraction++) {
    const shared = new SharedReports<number>(fakeClock())
    const { read, reads } = counting()
    const slow = () => {
      nowMs += 170 + fraction / 97
      return read()
    }
    for (let page = 0; page < 2; page++) await shared.read('week', true, slow)
    assert.equal(reads(), 1, String(fraction))
  }
})

test('a report is read anew where the clock was set back', async () => {
  const clock = fakeClock()
  const shared = new SharedReports<number>(clock)
  const { read } = counting()
  await shared.read('week', true, read)
  clock.advance(-LATER_MS)

  const { result, freshForMs } = await shared.read('week', true, read)
  assert.equal(result, 2)
  assert.ok(freshForMs <= LATER_MS / 2, `${freshForMs} ms`)
})

test('a page that is loaded has a report of its own, which those that follow take', async () => {
  const shared = new SharedReports<number>(fakeClock())
  const { read } = counting()
  await shared.read('week', true, read)

  assert.equal((await shared.read('week', false, read)).result, 2)
  assert.equal((await shared.read('week', true, read)).result, 2)
})

test('pages that show something else have another report', async () => {
  const shared = new SharedReports<number>(fakeClock())
  const { read } = counting()
  await shared.read('week', true, read)

  assert.equal((await shared.read('hour', true, read)).result, 2)
})

test('a report says how long it is shared: five seconds, or thirty times as long as it was read', async () => {
  const clock = fakeClock()
  const shared = new SharedReports<number>(clock)
  const first = await shared.read('week', true, async () => 1)
  assert.equal(first.freshForMs, 5_000)
  clock.advance(2_000)
  assert.equal((await shared.read('week', true, async () => 2)).freshForMs, 3_000)
})

test('a report that failed is not shared', async () => {
  const shared = new SharedReports<number>(fakeClock())
  const failing = () => Promise.reject(new Error('no database'))
  const both = [shared.read('week', true, failing), shared.read('week', true, failing)]
  for (const failed of both) await assert.rejects(failed, /no database/)

  assert.equal((await shared.read('week', true, async () => 7)).result, 7)
})

test('of very many different pages the oldest are forgotten', async () => {
  const shared = new SharedReports<number>(fakeClock())
  const { read, reads } = counting()
  for (let page = 0; page < 33; page++) await shared.read(`page ${page}`, true, read)
  await shared.read('page 32', true, read)
  assert.equal(reads(), 33)
  await shared.read('page 0', true, read)
  assert.equal(reads(), 34)
})
