import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RejectedRow } from '../../src/rules/load-reports.js'
import { SnapshotCache } from '../../src/rules/snapshot-cache.js'

/** As far as the cache is concerned. */
interface Snapshot {
  readonly names: readonly string[]
  readonly rejected: readonly RejectedRow[]
}

function rulesNamed(...names: string[]): Snapshot {
  return { names, rejected: [] }
}

/** Tables whose reading can be held up and made to fail. */
function controlledTable() {
  const waiting: (() => void)[] = []
  const table = {
    loads: 0,
    held: false,
    content: rulesNamed('first'),
    failure: undefined as Error | undefined,
    async load(): Promise<Snapshot> {
      table.loads++
      const { content } = table
      if (table.held) await new Promise<void>((resolve) => waiting.push(resolve))
      if (table.failure !== undefined) throw table.failure
      return content
    },
    letGo() {
      table.held = false
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
  return table
}

function cacheOf(table: { load(onRows: () => void): Promise<Snapshot> }, timeoutMs = 1_000) {
  const lines: string[] = []
  const note = (_details: object, message: string) => lines.push(message)
  const cache = new SnapshotCache<Snapshot>({
    load: (onRows) => table.load(onRows),
    empty: rulesNamed(),
    ttlMs: 60_000,
    timeoutMs,
    log: { error: note, warn: note, info: (message) => lines.push(message) },
  })
  const namesAt = async (nowMs: number) => (await cache.current(nowMs)).names
  return { cache, lines, namesAt }
}

describe('the cache of snapshots', () => {
  test('reads the table once for many requests at once', async () => {
    const table = controlledTable()
    const { namesAt } = cacheOf(table)
    await Promise.all(Array.from({ length: 100 }, () => namesAt(0)))
    assert.equal(table.loads, 1)
  })

  test('answers without a promise while the rules are fresh, and reads them again when they expire', async () => {
    const table = controlledTable()
    const { cache, namesAt } = cacheOf(table)
    await namesAt(0)
    table.content = rulesNamed('second')
    assert.ok(!(cache.current(59_999) instanceof Promise))
    assert.deepEqual(await namesAt(60_000), ['second'])
  })

  test('reads the table for the next request after an invalidation', async () => {
    const table = controlledTable()
    const { cache, namesAt } = cacheOf(table)
    await namesAt(0)
    table.content = rulesNamed('second')
    cache.invalidate()
    assert.deepEqual(await namesAt(1), ['second'])
  })

  test('does not lose an invalidation that comes while it reads', async () => {
    const table = controlledTable()
    const { cache, namesAt } = cacheOf(table)
    table.held = true
    const names = namesAt(0)
    table.content = rulesNamed('second')
    cache.invalidate()
    table.letGo()
    assert.deepEqual(await names, ['second'])
    assert.equal(table.loads, 2)
  })

  test('puts in force what it has read, and pauses, when the table changes during every reading', async () => {
    const table = controlledTable()
    let changes = 0
    const load = async () => {
      table.content = rulesNamed(`rule ${++changes}`)
      const loaded = await table.load()
      if (changes < 5) cache.invalidate()
      return loaded
    }
    const { cache, namesAt } = cacheOf({ ...table, load })
    const reloaded = cache.reload(0)
    assert.deepEqual(await namesAt(0), ['rule 2'])
    assert.equal(changes, 2)
    assert.deepEqual((await reloaded).names, ['rule 5'])
    assert.equal(changes, 5)
  })

  test('answers a request that comes after a write with that write, while others follow', async () => {
    const table = controlledTable()
    let changes = 0
    const load = async () => {
      const loaded = await table.load()
      if (++changes < 4) cache.invalidate()
      return loaded
    }
    const { cache, namesAt } = cacheOf({ ...table, load })
    const reloaded = cache.reload(0)
    await namesAt(0)
    table.content = rulesNamed('second')
    cache.invalidate()
    assert.deepEqual(await namesAt(0), ['second'])
    await reloaded
  })

  test('keeps the last good rules while the table fails, says so once, and once when it is back', async () => {
    const table = controlledTable()
    const { namesAt, lines } = cacheOf(table)
    await namesAt(0)
    table.failure = new Error('no such table')
    for (let nowMs = 60_000; nowMs < 70_000; nowMs += 500) assert.deepEqual(await namesAt(nowMs), ['first'])
    assert.ok(table.loads <= 11, `${table.loads} loads`)
    table.failure = undefined
    table.content = rulesNamed('second')
    await namesAt(71_000)
    assert.deepEqual(await namesAt(71_000), ['second'])
    assert.deepEqual(lines, [
      'Rate limit rules and overrides cannot be read: the last good ones stay in force',
      'Rate limit rules and overrides can be read again',
    ])
  })

  test('has no rules when the table has never been read', async () => {
    const table = controlledTable()
    table.failure = new Error('connection refused')
    assert.deepEqual(await cacheOf(table).namesAt(0), [])
  })

  test('lets no request wait longer than the time-out for a table that hangs, and the later ones not at all', async () => {
    const table = controlledTable()
    const { cache, namesAt, lines } = cacheOf(table, 20)
    table.held = true
    assert.deepEqual(await namesAt(0), [])
    assert.ok(!(cache.current(1) instanceof Promise))
    assert.ok(!(cache.current(5_000) instanceof Promise))
    assert.equal(table.loads, 1)
    table.letGo()
    await cache.reload(5_000)
    assert.deepEqual(await namesAt(5_000), ['first'])
    assert.equal(lines.length, 2)
  })

  test('reports a row that is not valid once, not at every reading', async () => {
    const table = controlledTable()
    const { cache, lines } = cacheOf(table)
    table.content = { names: [], rejected: [{ entity: 'rule', name: 'bad', reason: 'rate: Invalid rate' }] }
    for (let round = 0; round < 3; round++) await cache.reload(round)
    assert.deepEqual(lines, ['Rate limit rule skipped: it is not valid'])
  })

  test('answers with the last good rules, and never waits long, while very many are compiled', async () => {
    const table = controlledTable()
    let finish: () => void = () => undefined
    const compiling: Promise<unknown>[] = []
    const load = async (onRows: () => void) => {
      const snapshot = await table.load()
      onRows()
      if (compiling.length > 0) await compiling[0]
      return snapshot
    }
    const { cache, namesAt: names } = cacheOf({ ...table, load }, 20_000)
    assert.deepEqual(await names(0), ['first'])
    table.content = rulesNamed('second')
    compiling.push(
      new Promise((resolve) => {
        finish = () => resolve(undefined)
      }),
    )
    cache.invalidate()
    assert.deepEqual(await names(1), ['first'])
    assert.ok(!(cache.current(2) instanceof Promise))
    finish()
    await cache.reload(3)
    assert.deepEqual(await names(3), ['second'])
  })

  test('knows the rules before the first request when it was warmed, which reads the table all the same', async () => {
    const table = controlledTable()
    const { cache, namesAt } = cacheOf(table)
    assert.equal(cache.readAtMs, undefined)
    await cache.warm(-5)
    assert.equal(cache.readAtMs, -5)
    table.content = rulesNamed('second')
    assert.deepEqual(await namesAt(0), ['second'])
    assert.equal(cache.readAtMs, 0)
    table.failure = new Error('away')
    await cacheOf(table).cache.warm(0)
  })
})
