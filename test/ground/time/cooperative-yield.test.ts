import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CooperativeYield } from '../../../src/ground/time/cooperative-yield.js'

test('works that go on at once have their slices in different turns of the event loop', async () => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const turns: number[] = []
  async function work() {
    const slices = new CooperativeYield()
    for (let slice = 0; slice < 5; slice++) {
      await slices.pause()
      turns.push(turn)
    }
  }
  await Promise.all(Array.from({ length: 10 }, work))
  isOver = true
  assert.equal(turns.length, 50)
  assert.equal(new Set(turns).size, 50)
})
