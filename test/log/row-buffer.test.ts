import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { RowBuffer } from '../../src/log/row-buffer.js'
import { eventually } from '../support/eventually.js'
import { collectGarbage } from '../support/garbage.js'

function bufferOf(...rows: string[]): RowBuffer {
  const buffer = new RowBuffer()
  for (const row of rows) buffer.push(row)
  return buffer
}

describe('a buffer of rows', () => {
  test('is empty at first', () => {
    const buffer = bufferOf()

    assert.equal(buffer.length, 0)
    assert.equal(buffer.first, undefined)
    assert.deepEqual(buffer.peek(10), [])
    buffer.drop(10)
    assert.equal(buffer.length, 0)
  })

  test('gives back the rows in their order, and keeps them', () => {
    const buffer = bufferOf('first', 'second', 'third')

    assert.equal(buffer.first, 'first')
    assert.deepEqual(buffer.peek(2), ['first', 'second'])
    assert.deepEqual(buffer.peek(10), ['first', 'second', 'third'])
    assert.equal(buffer.length, 3)
  })

  test('takes more rows after its first ones were dropped', () => {
    const buffer = bufferOf('first', 'second', 'third')

    buffer.drop(2)
    buffer.push('fourth')

    assert.equal(buffer.length, 2)
    assert.equal(buffer.first, 'third')
    assert.deepEqual(buffer.peek(10), ['third', 'fourth'])
  })

  test('is empty once all rows, or more than it has, are dropped', () => {
    const buffer = bufferOf('first', 'second')

    buffer.drop(3)
    assert.deepEqual(buffer.peek(10), [])

    buffer.push('third')
    assert.deepEqual(buffer.peek(10), ['third'])
  })

  test('keeps every character, and empty rows', () => {
    const rows = ['', 'Grüße', '東京都', '👩‍🚀 ate 🥐', '\u0000\u007f\u0080\uffff', '', 'ascii']
    const buffer = bufferOf(...rows)

    assert.deepEqual(buffer.peek(rows.length), rows)
    buffer.drop(3)
    assert.deepEqual(buffer.peek(rows.length), rows.slice(3))
  })

  test('holds any number of rows, also one larger than all others together', () => {
    const rows = Array.from({ length: 3_000 }, (_, i) => `${i} ${'é'.repeat(i % 200)}`)
    rows.push('語'.repeat(1_000_000))
    const buffer = bufferOf(...rows)

    assert.equal(buffer.length, rows.length)
    assert.deepEqual(buffer.peek(rows.length), rows)
  })

  test('holds the rows of random pushes and drops as a list does', () => {
    const lengths = fc.array(fc.nat(50_000), { maxLength: 40, size: 'max' })
    const steps = fc.array(fc.record({ lengths, dropped: fc.nat(40) }), { maxLength: 20, size: 'max' })
    const holdsAsList = (some: readonly { readonly lengths: readonly number[]; readonly dropped: number }[]) => {
      const buffer = new RowBuffer()
      let list: string[] = []
      for (const [step, { lengths, dropped }] of some.entries()) {
        for (const length of lengths) {
          const row = `${step}:${'ü'.repeat(length)}`
          buffer.push(row)
          list.push(row)
        }
        assert.deepEqual(buffer.peek(dropped), list.slice(0, dropped))
        buffer.drop(dropped)
        list = list.slice(dropped)
        assert.equal(buffer.length, list.length)
        assert.equal(buffer.first, list[0])
      }
    }
    fc.assert(fc.property(steps, holdsAsList), { numRuns: 30 })
  })

  test('frees the memory of many rows once it is empty', async () => {
    const bytesOfBuffers = () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers
    }
    const atFirst = bytesOfBuffers()
    const buffer = bufferOf(...Array.from({ length: 32 }, () => 'x'.repeat(1_000_000)))
    assert.ok(bytesOfBuffers() - atFirst > 30_000_000)

    buffer.drop(buffer.length)

    // Another thread frees them, after the collection.
    await eventually('the memory is free', () => bytesOfBuffers() - atFirst < 10_000_000)
    buffer.push('still here')
    assert.equal(buffer.first, 'still here')
  })
})
