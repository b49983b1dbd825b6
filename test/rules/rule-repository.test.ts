/** Thousands of rules are read a page at a time, and yet all of one moment. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Database } from '../../src/db/database.js'
import { loadActiveRules } from '../../src/rules/rule-repository.js'
import { atEnd } from '../support/at-end.js'
import { forEachDatabase } from '../support/databases.js'

const COUNT = 1_200

forEachDatabase((_provider, open) => {
  test('thousands of rules are all read, a thousand at a time', async (t) => {
    const { database } = await openRules(t)
    const sizes = watchPages(t, database)
    const { rules, rejected } = await loadActiveRules(database)

    assert.deepEqual([new Set(rules.map(({ name }) => name)).size, rejected], [COUNT, []])
    assert.deepEqual(sizes.slice(-3), [1_000, 200, 0])
  })

  test('rules that are changed while they are read are read again', async (t) => {
    const { client, database } = await openRules(t)
    let times = 0
    const sizes = watchPages(t, database, async () => {
      if (sizes.length === 2 && times++ === 0) await client.rateLimitRule.updateMany({ data: { rate: '7/m' } })
    })
    const { rules } = await loadActiveRules(database)

    assert.deepEqual(new Set(rules.map(({ policy }) => policy.limit)), new Set([7]))
  })

  test('rules that are changed all the time are read at once', async (t) => {
    const { client, database } = await openRules(t)
    let limit = 10
    const sizes = watchPages(t, database, () => client.rateLimitRule.updateMany({ data: { rate: `${++limit}/m` } }))
    const { rules } = await loadActiveRules(database)

    assert.equal(new Set(rules.map(({ policy }) => policy.limit)).size, 1)
    assert.equal(sizes.at(-1), COUNT)
  })

  async function openRules(t: TestContext) {
    const opened = await open()
    atEnd(t, () => opened.close())
    const data = Array.from({ length: COUNT }, (_, index) => ({
      name: `rule-${index}`,
      pathPattern: `^/${index}$`,
      rate: '5/m',
    }))
    await opened.client.rateLimitRule.createMany({ data })
    return opened
  }
})

/** The sizes of the pages that are read. */
function watchPages(t: TestContext, database: Database, before: () => unknown = () => undefined): number[] {
  const sizes: number[] = []
  const { query } = database
  t.mock.method(database, 'query', async (sql: string, parameters?: readonly (string | number | null)[]) => {
    if (!sql.includes('LIMIT')) return query(sql, parameters)
    await before()
    const rows = await query(sql, parameters)
    sizes.push(rows.length)
    return rows
  })
  return sizes
}
