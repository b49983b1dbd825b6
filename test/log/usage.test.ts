/** The sums of usage: what one process adds to them, and when they go. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createOutageLog } from '../../src/ground/outage-log.js'
import { deleteOldUsage } from '../../src/log/usage/usage-table.js'
import { createUsageSweep } from '../../src/plugin/parts/operations.js'
import { pluginParts } from '../../src/plugin/parts.js'
import type { RateLimitOptions } from '../../src/plugin/settings/options.js'
import { resolveSettings } from '../../src/plugin/settings/resolve.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { collectGarbage } from '../support/garbage.js'
import { charge } from '../support/usage.js'

async function openUsage(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, { database, plugin: { usage: ['tokens'], ...plugin } })
  const { usage } = pluginParts(started.app)
  assert.ok(usage)
  return { ...started, database, usage, rows: () => rowsIn(database) }
}

/** Reads `<period> <unit> <client> <policy> <amount> <requests>` of each sum, the days first. */
async function rowsIn({ log: { dialect, query } }: TestDatabase): Promise<string[]> {
  const rows = await query<Record<string, string | number>>(
    `SELECT period, unit, client, policy, amount, requests FROM ${dialect.table('rate_limit_usage')}
     ORDER BY span, period, client, policy`,
  )
  return rows.map((row) => Object.values(row).join(' '))
}

forEachDatabase((provider) => {
  test('charges of the same client, unit, policy and day are one row, and a request counts once in it', async (t) => {
    const { usage, rows } = await openUsage(t, provider)
    const atMs = Date.UTC(2026, 10, 24, 12)
    for (let each = 0; each < 40; each++) {
      usage.record(charge({ amount: each, atMs: atMs + each, previousMs: each === 0 ? undefined : atMs + each - 1 }))
    }
    assert.equal(usage.stats().buffered, 1)
    await usage.flush()
    usage.record(charge({ amount: 5, atMs }))
    await usage.flush()
    assert.deepEqual(await rows(), ['2026-11-24 tokens user:7 llm 785 2', '2026-11 tokens user:7 llm 785 2'])
    assert.equal(usage.stats().written, 2)
  })

  test('days and months end at midnight in UTC, also for a stream that goes on', async (t) => {
    const { usage, rows } = await openUsage(t, provider)
    const midnight = Date.UTC(2026, 11, 1)
    usage.record(charge({ amount: 1, atMs: midnight - 1 }))
    usage.record(charge({ amount: 2, atMs: midnight, previousMs: midnight - 1 }))
    usage.record(charge({ amount: 4, atMs: midnight + 1, previousMs: midnight }))
    await usage.flush()
    assert.deepEqual(await rows(), [
      '2026-11-30 tokens user:7 llm 1 1',
      '2026-12-01 tokens user:7 llm 6 1',
      '2026-11 tokens user:7 llm 1 1',
      '2026-12 tokens user:7 llm 6 1',
    ])
  })

  test('other units are not kept, and by default all are but requests', async (t) => {
    const { usage, rows } = await openUsage(t, provider, { usage: ['content-bytes', 'requests'] })
    for (const unit of ['tokens', 'content-bytes', 'requests']) usage.record(charge({ unit }))
    await usage.flush()
    const units = async () => [...new Set((await rows()).map((row) => row.split(' ')[1]))].sort()
    assert.deepEqual(await units(), ['content-bytes', 'requests'])
    const other = await openUsage(t, provider, { usage: undefined })
    for (const unit of ['tokens', 'content-bytes', 'requests']) other.usage.record(charge({ unit }))
    await other.usage.flush()
    assert.deepEqual([...new Set((await other.rows()).map((row) => row.split(' ')[1]))].sort(), [
      'content-bytes',
      'tokens',
    ])
  })

  test('a sum keeps all digits up to 2^53 - 1, where it stops', async (t) => {
    const { usage, rows } = await openUsage(t, provider)
    const max = Number.MAX_SAFE_INTEGER
    const record = async (amounts: readonly number[]) => {
      for (const amount of amounts) usage.record(charge({ amount }))
      await usage.flush()
      return (await rows())[0]?.split(' ').slice(-2)
    }
    assert.deepEqual(await record([max - 3, 1]), [String(max - 2), '2'])
    assert.deepEqual(await record([1]), [String(max - 1), '3'])
    assert.deepEqual(await record([5]), [String(max), '4'])
    assert.deepEqual(await record([max, max]), [String(max), '6'])
  })

  test('texts of clients are kept as any table takes them', async (t) => {
    const { usage, rows } = await openUsage(t, provider)
    usage.record(charge({ client: `key:\0\ud800"'; DROP TABLE x--${'é'.repeat(300)}` }))
    await usage.flush()
    const [, , ...client] = (await rows())[0]?.split(' ').slice(0, -3) ?? []
    assert.match(client.join(' '), /^key:\ufffd"'; DROP TABLE x--é+$/)
    assert.equal(client.join(' ').length, 255)
  })

  test('sums of months that ended long ago are deleted together with their days, some at a time', async (t) => {
    const { usage, rows, database } = await openUsage(t, provider)
    const at = (month: number, day: number) => charge({ atMs: Date.UTC(2026, month - 1, day) })
    for (const each of [at(9, 1), at(9, 30), at(10, 1), at(10, 31), at(11, 1)]) usage.record(each)
    await usage.flush()
    assert.equal(await deleteOldUsage(database.log, Date.UTC(2026, 10, 1) - 1, 2), 2)
    assert.equal(await deleteOldUsage(database.log, Date.UTC(2026, 10, 1) - 1, 2), 1)
    assert.equal(await deleteOldUsage(database.log, Date.UTC(2026, 10, 1) - 1, 2), 0)
    assert.deepEqual(
      (await rows()).map((row) => row.split(' ')[0]),
      ['2026-10-01', '2026-10-31', '2026-11-01', '2026-10', '2026-11'],
    )
    assert.equal(await deleteOldUsage(database.log, Date.UTC(2026, 10, 1), 10), 3)
  })

  test('while the database is away charges add up in memory, and when it is full only new clients are lost', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, log } = await startApp(t, { database, plugin: { usage: ['tokens'], eventBuffer: 4 } })
    const { usage } = pluginParts(app)
    assert.ok(usage)
    const table = database.log.dialect.table('rate_limit_usage')
    await database.log.execute(`ALTER TABLE ${table} RENAME TO away`)
    usage.record(charge({ client: 'user:0' }))
    await usage.flush()
    for (let round = 0; round < 10; round++) {
      for (let client = 1; client < 8; client++) usage.record(charge({ client: `user:${client}`, amount: 10 }))
    }
    assert.deepEqual(
      log.map(({ msg }) => msg),
      ['Rate limit sums of usage cannot be written, and are kept for now', 'Rate limit sums of usage are being lost'],
    )
    const away = provider === 'sqlite' ? 'away' : table.replace('rate_limit_usage', 'away')
    await database.log.execute(`ALTER TABLE ${away} RENAME TO rate_limit_usage`)
    await usage.flush()
    await usage.flush()
    const days = (await rowsIn(database)).filter((row) => row.startsWith('2026-11-2'))
    assert.deepEqual(
      days.map((row) => row.split(' ').slice(2).join(' ')),
      ['user:0 llm 1 1', 'user:1 llm 100 10', 'user:2 llm 100 10', 'user:3 llm 100 10'],
    )
    assert.equal(usage.stats().dropped, 40)
  })
})

test('charges that wait keep nothing of long texts but what the table has', async (t) => {
  const { usage, rows, database } = await openUsage(t, 'sqlite')
  const table = database.log.dialect.table('rate_limit_usage')
  await database.log.execute(`ALTER TABLE ${table} RENAME TO away`)
  usage.record(charge())
  await usage.flush()
  const long = Buffer.alloc(15_000, 'x')
  const textOf = (number: number) => Buffer.concat([Buffer.from(`${number}`.padEnd(40, 'x')), long]).toString('latin1')
  collectGarbage()
  const beforeBytes = process.memoryUsage().heapUsed
  for (let number = 0; number < 2_000; number++) {
    // Of some clients all is long, of others what they were read from.
    const text = number % 2 === 0 ? textOf(number) : textOf(number).slice(0, 40)
    usage.record(charge({ client: `header:x-api-key:${text}` }))
  }
  collectGarbage()
  const keptBytes = process.memoryUsage().heapUsed - beforeBytes
  assert.equal(usage.stats().buffered, 2_001)
  assert.ok(keptBytes < 2_000 * 3_000, `${keptBytes} bytes are kept`)
  // Two clients that the table cannot tell apart are one sum of it already.
  usage.record(charge({ client: `header:x-api-key:${textOf(0)}y` }))
  assert.equal(usage.stats().buffered, 2_001)
  await database.log.execute(`ALTER TABLE away RENAME TO rate_limit_usage`)
  await usage.flush()
  await usage.flush()
  const days = (await rows()).filter((row) => row.startsWith('2026-11-24'))
  assert.equal(days.length, 2_001)
  assert.deepEqual(
    days.filter((row) => row.endsWith(' 2 2')).map((row) => row.split(' ')[2]),
    [`header:x-api-key:${textOf(0)}`.slice(0, 255)],
  )
})

test('usage is kept only where a database is open anyway, or a unit is named, and never where it is off', async (t) => {
  const usageOf = async (plugin: RateLimitOptions) => {
    const folder = mkdtempSync(join(tmpdir(), 'ratelimit-usage-'))
    atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
    const { app } = await startApp(t, { database: null, plugin: { database: `file:${folder}/x.db`, ...plugin } })
    return pluginParts(app).usage !== undefined
  }
  assert.equal(await usageOf({}), false)
  assert.equal(await usageOf({ logEvents: true }), true)
  assert.equal(await usageOf({ useDynamicRules: true }), true)
  assert.equal(await usageOf({ usage: ['tokens'] }), true)
  assert.equal(await usageOf({ usage: [] }), false)
  assert.equal(await usageOf({ logEvents: true, usage: false }), false)
  assert.equal(await usageOf({ logEvents: true, enabled: false }), false)
})

test('the sweep of a server deletes the usage of months that ended longer ago than `keepUsageFor`', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 11, 15))
  const { app, usage, rows, database } = await openUsage(t, 'sqlite')
  for (const month of [8, 9, 10]) usage.record(charge({ atMs: Date.UTC(2026, month, 30) }))
  await usage.flush()
  const sweep = async (options: RateLimitOptions) => {
    const settings = resolveSettings({ ...options, middleware: { backend: 'memory' }, clock }, {})
    const eventsLog = createOutageLog(app.log, clock)
    await createUsageSweep({ settings, clock, database: database.database, eventsLog }).step()
    return (await rows()).map((row) => row.split(' ')[0])
  }
  assert.deepEqual(await sweep({}), ['2026-09-30', '2026-10-30', '2026-11-30', '2026-09', '2026-10', '2026-11'])
  assert.deepEqual(await sweep({ keepUsageFor: '45d' }), ['2026-10-30', '2026-11-30', '2026-10', '2026-11'])
  assert.deepEqual(await sweep({ keepUsageFor: '43d' }), ['2026-11-30', '2026-11'])
})
