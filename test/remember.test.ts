/** What is computed once, and kept. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createdByFirstCall, madeOnce } from '../src/remember.js'

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
