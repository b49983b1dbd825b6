/** Pages of a list follow each other in both directions without gaps, in orders that an index has. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Query } from '../../src/database/dialect.js'
import { isPosition, type PageStart, pages, readPage } from '../../src/database/list.js'
import { ORDERS, overrideList } from '../../src/staff/dashboard/overrides/list-overrides.js'
import { forEachDatabase } from '../support/databases.js'

const END_MS = Date.UTC(2100, 0, 15, 12)
const COUNT = 300
const INDEXES = {
  newest: 'rate_limit_override_pkey|INTEGER PRIMARY KEY|SCAN entry',
  client: 'rate_limit_override_client_path_pattern_key',
  end: 'rate_limit_override_expires_at_idx',
} as const

forEachDatabase((provider, open) => {
  test('pages of each order have every row once, forward and back, those without a value last', async (t) => {
    const { database, client, close } = await open()
    t.after(close)
    await client.rateLimitOverride.createMany({
      data: Array.from({ length: COUNT }, (_, number) => ({
        client: `user:${number % 100}`,
        pathPattern: `^/${number}`,
        effect: 'deny',
        expiresAt: number % 3 === 0 ? null : new Date(END_MS + (number % 7) * 60_000),
      })),
    })
    const listing = { text: '', kind: undefined, state: undefined }
    for (const order of ORDERS) {
      const plans: string[] = []
      const planOf = (sql: string, parameters: Parameters<Query>[1]): Promise<string> =>
        provider === 'sqlite'
          ? database.query(`EXPLAIN QUERY PLAN ${sql}`, parameters).then((rows) => JSON.stringify(rows))
          : database.snapshot(async (run) => {
              await run('SET LOCAL enable_seqscan = off')
              return JSON.stringify(await run(`EXPLAIN ${sql}`, parameters))
            })
      const query: Query = async (sql, parameters) => {
        plans.push(await planOf(sql, parameters ?? []))
        return database.query(sql, parameters)
      }
      const list = overrideList({ dialect: database.dialect, query }, undefined, { ...listing, order }, 0)
      const all = (await readPage(database.dialect, list, { limit: 1_000 })).rows
      const ids = all.map(({ id }) => id)
      assert.equal(new Set(ids).size, COUNT, order)
      const ends = all.map(({ entry }) => (entry.expiresAt === null ? '~' : String(entry.expiresAt)))
      if (order === 'end') assert.deepEqual(ends, ends.toSorted())

      const forward: number[] = []
      for await (const rows of pages(database.dialect, list, 7)) forward.push(...rows.map(({ id }) => id))
      assert.deepEqual(forward, ids, order)

      const [last] = all.slice(-1)
      assert.ok(last !== undefined && isPosition(list.order, list.position(last)), order)
      const back = [last.id]
      for (let first = last, isBegun = true; isBegun; ) {
        const from: PageStart = { side: 'before', position: list.position(first) }
        const page = await readPage(database.dialect, list, { from, limit: 7 })
        assert.ok(page.hasAfter)
        back.unshift(...page.rows.map(({ id }) => id))
        first = page.rows[0] ?? first
        isBegun = page.hasBefore
      }
      assert.deepEqual(back, ids, `${order} back`)
      for (const plan of new Set(plans)) assert.match(plan, new RegExp(INDEXES[order]), `${order}: ${plan}`)
    }
  })
})
