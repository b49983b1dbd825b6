import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forEachDatabase } from '../support/databases.js'

forEachDatabase((provider, open) => {
  test('statements that a report asks for together get their own rows', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const numbers = Array.from({ length: 7 }, (_, index) => index)
    const rows = await database.report((query) =>
      Promise.all(numbers.map((number) => query<{ number: number }>(`SELECT ${number} AS number`))),
    )
    assert.deepEqual(
      rows.map(([row]) => row?.number),
      numbers,
    )
  })

  test('a statement that fails makes its report fail, and no other one', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const slow = provider === 'postgresql' ? 'SELECT pg_sleep(0.05)' : 'SELECT 1'
    const statements = [slow, 'SELECT nothing', 'SELECT 1', 'SELECT 2', 'SELECT 3']
    await assert.rejects(
      database.report((query) => Promise.all(statements.map((sql) => query(sql)))),
      /nothing/,
    )
    assert.deepEqual(await database.report((query) => query('SELECT 4 AS number')), [{ number: 4 }])
  })
})
