/** The statements of two connections to one SQLite file run in turn. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { PATIENCE_MS, StatementLine } from '../../src/database/sqlite-line.js'

test('statements start one after the other, in their order, whether they fail or not', async () => {
  const { line, started, ask } = open()
  const first = ask('first')
  const second = ask('second')
  const third = ask('third')
  assert.deepEqual(started, ['first'])
  first.fail(new Error('no'))
  await assert.rejects(first.answer, /no/)
  assert.deepEqual(started, ['first', 'second'])
  second.end()
  await second.answer
  third.end()
  await third.answer

  assert.deepEqual(started, ['first', 'second', 'third'])
  assert.equal(await line.run(async () => 'at once'), 'at once')
})

test('what waits for a statement that has taken long starts at its end together', async (t) => {
  const { started, ask } = open()
  const clock = mockTime(t)
  const first = ask('first')
  const waiting = [ask('second'), ask('third')]
  clock.nowMs += PATIENCE_MS + 1
  first.end()
  await first.answer

  assert.deepEqual(started, ['first', 'second', 'third'])
  for (const each of waiting) each.end()
})

test('a statement that comes when another one has taken long starts what waits, and itself', async (t) => {
  const { started, ask } = open()
  const clock = mockTime(t)
  const first = ask('first')
  const waiting = [ask('second'), ask('third')]
  clock.nowMs += PATIENCE_MS + 1
  const late = ask('late')
  assert.deepEqual(started, ['first', 'second', 'third', 'late'])
  for (const each of [first, ...waiting, late]) each.end()
  await Promise.all([first, ...waiting, late].map(({ answer }) => answer))
  const next = ask('next')
  ask('last')

  assert.deepEqual(started.slice(4), ['next'])
  next.end()
  await next.answer
  assert.deepEqual(started.slice(4), ['next', 'last'])
})

test('released statements start at once, and later ones wait for the last of them', async () => {
  const { line, started, ask } = open()
  const all = ['first', 'second', 'third'].map(ask)
  line.release()
  assert.deepEqual(started, ['first', 'second', 'third'])
  const later = ask('later')
  for (const each of all) {
    assert.equal(started.length, 3)
    each.end()
    await each.answer
  }

  assert.deepEqual(started, ['first', 'second', 'third', 'later'])
  later.end()
  await later.answer
})

function open() {
  const line = new StatementLine()
  const started: string[] = []
  function ask(name: string) {
    let end: () => void = () => undefined
    let fail: (error: Error) => void = () => undefined
    const outcome = new Promise<void>((resolve, reject) => {
      end = resolve
      fail = reject
    })
    const answer = line.run(() => {
      started.push(name)
      return outcome
    })
    return { answer, end, fail }
  }
  return { line, started, ask }
}

function mockTime(t: TestContext) {
  const clock = { nowMs: 0 }
  t.mock.method(performance, 'now', () => clock.nowMs)
  return clock
}
