import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { RevisionPoll } from '../../src/db/revision-poll.js'

/** A poll whose timers and database the test moves. */
function start(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const database = { revision: 1, reads: 0, failure: undefined as Error | undefined }
  let nowMs = 0
  let changes = 0
  const poll = new RevisionPoll({
    read: async () => {
      database.reads++
      if (database.failure !== undefined) throw database.failure
      return database.revision
    },
    changed: () => {
      changes++
    },
    now: () => nowMs,
    timeoutMs: 500,
  })
  t.after(() => poll.close())
  return {
    poll,
    database,
    changes: () => changes,
    now: () => nowMs,
    /** Lets time pass, a millisecond of the clock for each of the timers. */
    async pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 50) {
        nowMs += 50
        t.mock.timers.tick(50)
        for (let turn = 0; turn < 5; turn++) await Promise.resolve()
      }
    },
  }
}

describe('the poll of the revision', () => {
  test('is waited for by the first request, not by the ones that follow', async (t) => {
    const { poll, database, changes } = start(t)
    const waiting = poll.fresh(0)
    assert.equal(await waiting, true)
    assert.equal(poll.fresh(1_000), undefined)
    assert.deepEqual([database.reads, changes()], [1, 1])
  })

  test('goes on about once a second while there is traffic, which never waits, and tells what changed', async (t) => {
    const { poll, database, changes, now, pass } = start(t)
    await poll.fresh(0)
    for (let second = 0; second < 60; second++) {
      if (second === 30) database.revision++
      for (let part = 0; part < 10; part++) {
        await pass(100)
        assert.equal(poll.fresh(now()), undefined)
      }
    }
    assert.ok(database.reads >= 45 && database.reads <= 76, `${database.reads} reads`)
    assert.equal(changes(), 2)
  })

  test('stops when there is no traffic; the first request after two quiet seconds waits', async (t) => {
    const { poll, database, now, pass } = start(t)
    await poll.fresh(0)
    await pass(60_000)
    assert.ok(database.reads <= 2, `${database.reads} reads`)
    const before = database.reads
    assert.equal(await poll.fresh(now()), true)
    assert.equal(database.reads, before + 1)
  })

  test('keeps one request until the time-out, and those that follow not at all, while the database hangs', async (t) => {
    let reads = 0
    const read = () => {
      reads++
      return new Promise<number>(() => undefined)
    }
    const poll = new RevisionPoll({ read, changed: () => undefined, now: () => 0, timeoutMs: 20 })
    t.after(() => poll.close())
    assert.equal(await poll.fresh(0), false)
    assert.equal(poll.fresh(1), undefined)
    assert.equal(poll.fresh(5_000), undefined)
    assert.equal(reads, 1)
  })

  test('swallows a failure, and notices what changed meanwhile when the database is back', async (t) => {
    const { poll, database, changes, now, pass } = start(t)
    await poll.fresh(0)
    database.failure = new Error('away')
    for (let part = 0; part < 50; part++) {
      await pass(100)
      await poll.fresh(now())
    }
    assert.equal(changes(), 1)
    database.failure = undefined
    database.revision++
    await pass(2_000)
    await poll.fresh(now())
    await pass(1_300)
    assert.equal(changes(), 2)
  })

  test('does nothing any more when it is closed', async (t) => {
    const { poll, database, pass } = start(t)
    await poll.fresh(0)
    poll.close()
    await pass(10_000)
    assert.equal(poll.fresh(20_000), undefined)
    assert.equal(database.reads, 1)
  })
})
