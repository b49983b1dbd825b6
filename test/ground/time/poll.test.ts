import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { Poll, type PollOptions } from '../../../src/ground/time/poll.js'

/** A poll whose timers and source the test moves. */
function start(t: TestContext, options: Partial<PollOptions> = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const source = { content: 'first', looks: 0, failure: undefined as Error | undefined }
  const known = { content: '', failures: [] as unknown[] }
  let nowMs = 0
  const poll = new Poll({
    look: async () => {
      source.looks++
      const { content } = source
      await Promise.resolve()
      if (source.failure !== undefined) throw source.failure
      known.content = content
    },
    failed: (error) => known.failures.push(error),
    now: () => nowMs,
    timeoutMs: 500,
    ...options,
  })
  t.after(() => void poll.close())
  return {
    poll,
    source,
    known,
    now: () => nowMs,
    /** Lets time pass, a millisecond of the clock for each of the timers. */
    async pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 50) {
        nowMs += 50
        t.mock.timers.tick(50)
        for (let turn = 0; turn < 10; turn++) await Promise.resolve()
      }
    },
  }
}

/** A look that ends when the test says so. */
function heldLooks() {
  const held: { answered: () => void; end: (error?: Error) => void }[] = []
  const look = (answered: () => void) =>
    new Promise<void>((resolve, reject) => {
      held.push({ answered, end: (error) => (error === undefined ? resolve() : reject(error)) })
    })
  return { held, look }
}

/** A poll with real timers and a short time-out. */
function startHanging(t: TestContext, look: PollOptions['look']) {
  const failures: unknown[] = []
  const poll = new Poll({ look, failed: (error) => failures.push(error), now: () => 0, timeoutMs: 20 })
  t.after(() => void poll.close())
  return { poll, failures }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
}

describe('a poll', () => {
  test('lets many requests at once wait for one look, and those that follow for none', async (t) => {
    const { poll, source, known } = start(t)
    await Promise.all(Array.from({ length: 100 }, () => poll.pending(0)))
    assert.equal(poll.pending(1_000), undefined)
    assert.deepEqual([source.looks, known.content, poll.seenAtMs], [1, 'first', 0])
  })

  test('polls about once a second while there is traffic, which never waits', async (t) => {
    const { poll, source, known, now, pass } = start(t)
    await poll.pending(0)
    for (let second = 0; second < 60; second++) {
      if (second === 30) source.content = 'second'
      for (let part = 0; part < 10; part++) {
        await pass(100)
        assert.equal(poll.pending(now()), undefined)
      }
    }
    assert.ok(source.looks >= 45 && source.looks <= 76, `${source.looks} looks`)
    assert.equal(known.content, 'second')
  })

  test('stops when there is no traffic; the first request after two quiet seconds waits', async (t) => {
    const { poll, source, known, now, pass } = start(t)
    await poll.pending(0)
    await pass(60_000)
    assert.ok(source.looks <= 2, `${source.looks} looks`)
    source.content = 'second'
    const pending = poll.pending(now())
    assert.equal(known.content, 'first')
    await pending
    assert.equal(known.content, 'second')
  })

  test('polls again where the clock was set back', async (t) => {
    const { poll, source, pass, now } = start(t)
    await pass(5_000)
    await poll.pending(now())
    assert.ok(poll.pending(now() - 1) instanceof Promise)
    assert.equal(source.looks, 2)
  })

  test('that is expired lets the next request wait for a look that begins after that', async (t) => {
    const { poll, source, known } = start(t)
    await poll.pending(0)
    source.content = 'second'
    poll.expire()
    await poll.pending(1)
    assert.deepEqual([known.content, source.looks], ['second', 2])
  })

  test('that is expired lets all requests wait until the look ends, not the first one alone', async (t) => {
    const { poll, source } = start(t)
    await poll.pending(0)
    poll.expire()
    const waiting = [poll.pending(1), poll.pending(1), poll.pending(1)]
    assert.ok(waiting.every((each) => each instanceof Promise))
    await Promise.all(waiting)
    assert.equal(poll.pending(1), undefined)
    assert.equal(source.looks, 2)
  })

  test('that is expired during a poll causes another one, for which requests wait together', async (t) => {
    const { poll, source, known } = start(t)
    const before = poll.pending(0)
    source.content = 'second'
    poll.expire()
    const after = [poll.pending(0), poll.pending(0)]
    await before
    assert.equal(known.content, 'first')
    await Promise.all(after)
    assert.deepEqual([known.content, source.looks], ['second', 2])
  })

  test('is refreshed by a look that begins afterwards, for which no request waits', async (t) => {
    const { poll, source, known } = start(t)
    await poll.pending(0)
    source.content = 'second'
    const refreshed = Promise.all([poll.refresh(500), poll.refresh(500), poll.refresh(500)])
    assert.equal(poll.pending(1), undefined)
    source.content = 'third'
    await refreshed
    assert.deepEqual([known.content, source.looks], ['third', 3])
  })

  test('keeps a request until the time-out, and those that follow not at all, while the source hangs', async (t) => {
    const { held, look } = heldLooks()
    const { poll, failures } = startHanging(t, look)
    await poll.pending(0)
    assert.equal(poll.pending(1), undefined)
    assert.equal(poll.pending(5_000), undefined)
    assert.equal(poll.isFresh(5_000), true)
    assert.deepEqual([held.length, poll.isFailing, failures], [1, false, []], 'it may be slow')
    held[0]?.end()
    await turns()
    assert.ok(poll.pending(5_000) instanceof Promise)
  })

  test('takes a source for a failed one that has not answered for ten seconds, and not before', async (t) => {
    const { held, look } = heldLooks()
    const { poll, known, pass, now } = start(t, { look })
    void poll.pending(0)
    await pass(9_000)
    assert.deepEqual([poll.isFailing, known.failures], [false, []])
    await pass(2_000)
    assert.deepEqual([poll.isFailing, known.failures.length], [true, 1])
    held[0]?.end()
    await turns()
    assert.equal(poll.isFailing, false)
    assert.ok(poll.pending(now()) instanceof Promise, 'what was read is eleven seconds old')
  })

  test('looks again at once after a look that took longer than the interval', async (t) => {
    const { held, look } = heldLooks()
    const { poll, pass, now } = start(t, { look })
    void poll.pending(0)
    await pass(1_500)
    void poll.pending(now())
    held[0]?.end()
    await turns()
    assert.equal(held.length, 2)
    held[1]?.end()
    await turns()
    assert.equal(held.length, 2)
  })

  test('lets no request wait for the work that follows an answer, but the first ones until the time-out', async (t) => {
    const { held, look } = heldLooks()
    const { poll, failures } = startHanging(t, look)
    const first = poll.pending(0)
    held[0]?.answered()
    assert.equal(poll.pending(1), undefined)
    await first
    assert.equal(poll.pending(5_000), undefined)
    assert.deepEqual([held.length, failures, poll.isFailing], [1, [], false])
  })

  test('lets requests that come after it was expired wait, whatever work is under way', async (t) => {
    const { held, look } = heldLooks()
    const { poll } = start(t, { look })
    void poll.pending(0)
    held[0]?.answered()
    poll.expire()
    const pending = poll.pending(1)
    assert.ok(pending instanceof Promise)
    held[0]?.end()
    await turns()
    assert.equal(held.length, 2)
    held[1]?.end()
    await pending
  })

  test('lets no request wait while the source fails, tries again each second, and recovers', async (t) => {
    const { poll, source, known, now, pass } = start(t)
    await poll.pending(0)
    source.failure = new Error('away')
    source.content = 'second'
    await pass(60_000)
    await poll.pending(now())
    const { looks } = source
    for (let part = 0; part < 100; part++) {
      await pass(100)
      assert.equal(poll.pending(now()), undefined)
    }
    assert.ok(source.looks - looks <= 21, `${source.looks - looks} looks`)
    assert.equal(known.content, 'first')
    source.failure = undefined
    await pass(2_000)
    assert.deepEqual([known.content, poll.isFailing], ['second', false])
  })

  test('answers without a promise whether its state is fresh, and polls where it is not', async (t) => {
    const { poll, source, now, pass } = start(t)
    assert.equal(poll.isFresh(0), false)
    await turns()
    assert.equal(poll.isFresh(0), true)
    await pass(60_000)
    source.failure = new Error('away')
    assert.equal(poll.isFresh(now()), false)
    await turns()
    assert.equal(poll.isFresh(now()), true)
  })

  test('does nothing any more when it is closed', async (t) => {
    const { poll, source, pass } = start(t)
    await poll.pending(0)
    void poll.close()
    await pass(10_000)
    assert.equal(poll.pending(20_000), undefined)
    await poll.refresh(500)
    assert.equal(source.looks, 1)
  })
})
