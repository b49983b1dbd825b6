/** What is read of rules and overrides is all of one moment, however much is read and whatever is written meanwhile. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Database } from '../../src/db/database.js'
import type { SqlValue } from '../../src/db/dialect.js'
import { SnapshotReader } from '../../src/snapshot/current-snapshot.js'
import { atEnd } from '../support/at-end.js'
import { forEachDatabase } from '../support/databases.js'

const MANY = 1_200
const ROUTER = { caseSensitive: true, ignoreTrailingSlash: false }

forEachDatabase((_provider, open) => {
  test('thousands of rules and overrides are all read, a thousand at a time', async (t) => {
    const { database, reader } = await openRows(t, MANY)
    const sizes = watchPages(t, database)
    const { rules, overrides, rejected } = await reader.load()

    assert.deepEqual([rules.rules.length, overrides.size, rejected], [MANY, MANY, []])
    assert.deepEqual(sizes.slice(0, 4), [1_000, 200, 1_000, 200])
  })

  test('what is changed while it is read is read again', async (t) => {
    const { database, reader, change } = await openRows(t)
    let times = 0
    const sizes = watchPages(t, database, async () => {
      if (sizes.length > 0 && times++ < 2) await change()
    })
    assert.deepEqual(limitsOf(await reader.load()), { rules: [12], overrides: [12] })
  })

  test('what is changed all the time is read at one moment all the same', async (t) => {
    const { database, reader, change } = await openRows(t)
    watchPages(t, database, change)
    for (let times = 0; times < 2; times++) {
      const { rules, overrides } = limitsOf(await reader.load())
      assert.equal(rules.length, 1)
      assert.deepEqual(overrides, rules)
    }
  })

  test('a snapshot is the one of before until something changes', async (t) => {
    const { reader, client } = await openRows(t)
    const before = await reader.load()
    assert.equal(await reader.load(), before)
    reader.expire()
    assert.equal(await reader.load(), before)
    await client.rateLimitOverride.update({ where: { id: 1 }, data: { effect: 'deny' } })
    const after = await reader.load()
    assert.equal(after.rules, before.rules)
    assert.notEqual(after.overrides, before.overrides)
    assert.deepEqual(
      [before, after].map(({ overrides }) => overrides.find(null, '0', '/', 0)?.effect === 'deny'),
      [false, true],
    )
  })

  /** Rules and overrides that all have the same limit, and what changes the limit of them all. */
  async function openRows(t: TestContext, count = 3) {
    const { client, database, close } = await open()
    atEnd(t, close)
    const places = Array.from({ length: count }, (_, place) => place)
    await client.rateLimitRule.createMany({
      data: places.map((place) => ({ name: `rule-${place}`, pathPattern: `^/${place}$`, rate: '10/m' })),
    })
    await client.rateLimitOverride.createMany({ data: places.map((id) => ({ client: `user:${id}`, effect: '10/m' })) })
    let limit = 10
    async function change(): Promise<void> {
      limit++
      await client.$transaction([
        client.rateLimitRule.updateMany({ data: { rate: `${limit}/m` } }),
        client.rateLimitOverride.updateMany({ data: { effect: `${limit}/m` } }),
      ])
    }
    const reader = new SnapshotReader({ database, router: ROUTER, ttlMs: 60_000, now: () => 0 })
    return { client, database, reader, change }
  }
})

/** The limits that occur. */
function limitsOf({ rules, overrides }: Awaited<ReturnType<SnapshotReader['load']>>) {
  return {
    rules: [...new Set(rules.rules.map(({ policy }) => policy.limit))],
    overrides: [...new Set([...overrides.all()].map(({ effect }) => typeof effect === 'object' && effect.limit))],
  }
}

/** The sizes of the pages that are read. */
function watchPages(t: TestContext, database: Database, before: () => unknown = () => undefined): number[] {
  const sizes: number[] = []
  const { query } = database
  t.mock.method(database, 'query', async (sql: string, parameters?: readonly SqlValue[]) => {
    if (!sql.includes('LIMIT')) return query(sql, parameters)
    await before()
    const rows = await query(sql, parameters)
    sizes.push(rows.length)
    return rows
  })
  return sizes
}
