/** What is computed once, and kept. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClientMemory, createdByFirstCall, madeOnce, rememberClients, unremembered } from '../../src/ground/remember.js'
import { collectGarbage } from '../support/garbage.js'

/** Returns how many of some texts are remembered, and remembers no others. */
function countKnown(recall: (text: string) => number, texts: readonly string[], computed: () => number): number {
  const before = computed()
  for (const text of texts) unremembered(() => recall(text))
  return texts.length - (computed() - before)
}

test('texts of clients take no more than the bound of a process, through however many rules and limits', () => {
  let computed = 0
  const compute = (text: string) => {
    computed++
    return text.length
  }
  const texts = Array.from({ length: 5_000 }, (_, index) => `${index}-${'k'.repeat(236)}`)
  const memories = Array.from({ length: 20 }, () => rememberClients(compute))
  for (const recall of memories) for (const text of texts) assert.equal(recall(text), text.length)

  const known = memories.map((recall) => countKnown(recall, texts, () => computed))
  const kept = known.reduce((sum, count) => sum + count, 0)
  // A text and its value take more than 1,000 bytes of 32 MiB.
  assert.ok(kept > 0 && kept < 32_000, `${kept} texts are remembered`)
  assert.ok((known.at(-1) ?? 0) > 0, 'the latest are')
})

test('values that take more are bounded alike', () => {
  let computed = 0
  const recall = rememberClients(
    () => ++computed,
    () => 1_000_000,
  )
  // At any moment, however much was remembered before.
  for (let begin = 0; begin < 500; begin += 5) {
    const texts = Array.from({ length: begin + 5 }, (_, index) => String(index))
    for (const text of texts.slice(begin)) recall(text)
    assert.ok(countKnown(recall, texts, () => computed) <= 33)
  }
})

test('a text that is a part of a long one, such as the path of a URL, keeps nothing of the rest', () => {
  const recall = rememberClients((text) => ({ text }))
  const long = Buffer.alloc(15_000, 'q')
  collectGarbage()
  const beforeBytes = process.memoryUsage().heapUsed
  for (let number = 0; number < 2_000; number++) {
    const url = Buffer.concat([Buffer.from(`/a-path-of-some-length/${number}?`.padEnd(40, 'q')), long]).toString(
      'latin1',
    )
    recall(url.slice(0, url.indexOf('?')))
  }
  collectGarbage()
  const keptBytes = process.memoryUsage().heapUsed - beforeBytes
  assert.equal(recall('/a-path-of-some-length/1999').text, '/a-path-of-some-length/1999')
  assert.ok(keptBytes < 2_000 * 2_000, `${keptBytes} bytes are kept`)
})

test('a text of a client is remembered up to a length, and a value that is undefined too', () => {
  let computed = 0
  const recall = rememberClients(() => void computed++)
  for (const text of ['a', 'a', 'b'.repeat(512), 'b'.repeat(512)]) recall(text)
  assert.equal(computed, 2)
  for (let round = 0; round < 2; round++) recall('b'.repeat(513))
  assert.equal(computed, 4)
})

test('nothing is remembered during work that says so, also where that fails', () => {
  const memory = new ClientMemory<number>()
  assert.equal(
    unremembered(() => memory.keep('a', 1)),
    1,
  )
  assert.throws(() =>
    unremembered(() => {
      throw new Error('no client')
    }),
  )
  assert.equal(memory.values.has('a'), false)
  memory.keep('a', 1)
  assert.equal(memory.values.get('a'), 1)
})

test('a value is made once, also for calls that come while it is made', async () => {
  let times = 0
  const value = madeOnce(async () => ++times)

  assert.deepEqual(await Promise.all([value(), value()]), [1, 1])
  assert.equal(await value(), 1)
})

test('a value that could not be made is made anew by the next call', async () => {
  let times = 0
  const value = madeOnce(async () => {
    if (++times === 1) throw new Error('no such module')
    return times
  })

  await assert.rejects(value(), /no such module/)
  assert.equal(await value(), 2)
})

test('a function is created by its first call, and receives the arguments of each', async () => {
  let times = 0
  const add = createdByFirstCall(async () => {
    times++
    return async (first: number, second: number) => first + second
  })
  assert.equal(times, 0)

  assert.equal(await add(1, 2), 3)
  assert.equal(await add(3, 4), 7)
  assert.equal(times, 1)
})
