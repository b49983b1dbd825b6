import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RowBuffer } from '../../src/log/row-buffer.js'
import { eventually } from '../support/eventually.js'
import { collectGarbage } from '../support/garbage.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'

function bufferOf(...rows: string[]): RowBuffer {
  const buffer = new RowBuffer()
  for (const row of rows) buffer.push(row, 0)
  return buffer
}

function takeAll(buffer: RowBuffer): string[] {
  const rows: string[] = []
  for (let taken = buffer.take(); taken !== undefined; taken = buffer.take()) rows.push(...taken.rows)
  return rows
}

describe('a buffer of rows', () => {
  test('is empty at first', () => {
    const buffer = new RowBuffer()

    assert.deepEqual([buffer.length, buffer.firstMs, buffer.take()], [0, undefined, undefined])
  })

  test('gives the rows back once, in their order, with the time of the first', () => {
    const buffer = new RowBuffer()
    for (const [index, row] of ['first', 'second', 'third'].entries()) buffer.push(row, 7 + index)

    assert.deepEqual([buffer.length, buffer.firstMs], [3, 7])
    assert.deepEqual(buffer.take(), { rows: ['first', 'second', 'third'], firstMs: 7 })
    assert.deepEqual([buffer.length, buffer.firstMs, buffer.take()], [0, undefined, undefined])

    buffer.push('fourth', 10)
    assert.deepEqual([buffer.length, buffer.firstMs], [1, 10])
    assert.deepEqual(buffer.take(), { rows: ['fourth'], firstMs: 10 })
  })

  test('gives 5,000 rows at most, and tells the time of those that follow', () => {
    const buffer = new RowBuffer()
    for (let index = 0; index < 12_000; index++) buffer.push(String(index), index)

    assert.deepEqual(
      [buffer.take(), buffer.take(), buffer.take()].map((taken) => [taken?.rows.length, taken?.firstMs]),
      [
        [5_000, 0],
        [5_000, 5_000],
        [2_000, 10_000],
      ],
    )
  })

  test('keeps every character, and empty rows', () => {
    const rows = ['', 'Grüße', '東京都', '👩‍🚀 ate 🥐', '\u0000\u007f\u0080\uffff', '', 'ascii']

    assert.deepEqual(takeAll(bufferOf(...rows)), rows)
  })

  test('holds any number of rows, also one larger than all others together', () => {
    const rows = Array.from({ length: 3_000 }, (_, i) => `${i} ${'é'.repeat(i % 200)}`)
    rows.push('語'.repeat(1_000_000))
    const buffer = bufferOf(...rows)

    assert.equal(buffer.length, rows.length)
    assert.deepEqual(takeAll(buffer), rows)
  })

  test('holds the rows of random pushes and takes as a list does', long(), () => {
    const lengths = fc.array(fc.nat(50_000), { maxLength: 40, size: 'max' })
    const steps = fc.array(fc.record({ lengths, takes: fc.nat(2) }), { maxLength: 20, size: 'max' })
    const holdsAsList = (some: readonly { readonly lengths: readonly number[]; readonly takes: number }[]) => {
      const buffer = new RowBuffer()
      const list: { readonly row: string; readonly atMs: number }[] = []
      for (const [step, { lengths, takes }] of some.entries()) {
        for (const [index, length] of lengths.entries()) {
          const pushed = { row: `${step}:${'ü'.repeat(length)}`, atMs: step * 100 + index }
          buffer.push(pushed.row, pushed.atMs)
          list.push(pushed)
        }
        for (let round = 0; round < takes; round++) {
          const taken = buffer.take()
          assert.equal(taken?.firstMs, list[0]?.atMs)
          const expected = list.splice(0, taken?.rows.length ?? 0)
          assert.deepEqual(
            taken?.rows ?? [],
            expected.map(({ row }) => row),
          )
        }
        assert.equal(buffer.length, list.length)
        assert.equal(buffer.firstMs, list[0]?.atMs)
      }
    }
    fc.assert(fc.property(steps, holdsAsList), { numRuns: 30 })
  })

  test('frees the memory of many rows once it is empty', long(), async () => {
    const bytesOfBuffers = () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers
    }
    const atFirst = bytesOfBuffers()
    const buffer = bufferOf(...Array.from({ length: 32 }, () => 'x'.repeat(1_000_000)))
    assert.ok(bytesOfBuffers() - atFirst > 30_000_000)

    takeAll(buffer)

    // Another thread frees them, after the collection.
    await eventually('the memory is free', () => bytesOfBuffers() - atFirst < 10_000_000)
    buffer.push('still here', 0)
    assert.deepEqual(takeAll(buffer), ['still here'])
  })
})
