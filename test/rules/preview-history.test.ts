import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readChanges, SPREAD_MS } from '../../src/rules/preview-history.js'
import { openDatabase } from '../support/build-app.js'
import { forEachDatabase } from '../support/databases.js'

const FIRST_MS = Date.UTC(2026, 0, 1)

forEachDatabase((provider) => {
  test('all changes of a time are read, however many, in the order of the time, and of one kind only', async (t) => {
    const { database, client } = await openDatabase(t, provider)
    const change = { source: 'sql', rowId: 1, name: 'api', action: 'update', before: '{}', after: '{}' }
    // The later an id the earlier its moment, as clocks of several servers may have it.
    const data = Array.from({ length: 4_500 }, (_, place) => ({
      ...change,
      entity: place % 3 === 0 ? 'override' : 'rule',
      changedAt: new Date(FIRST_MS + 4_500 - place),
    }))
    await client.rateLimitChange.createMany({ data })

    const found = await readChanges(
      database.query,
      database.dialect,
      'rule',
      FIRST_MS + SPREAD_MS + 101,
      FIRST_MS + 4_000,
    )
    const times = found.map(({ changedMs }) => changedMs - FIRST_MS)
    const expected = data
      .filter(({ entity }) => entity === 'rule')
      .map(({ changedAt }) => changedAt.getTime() - FIRST_MS)
      .filter((ms) => ms >= 101 && ms <= 4_000)
      .reverse()
    assert.deepEqual(times, expected)
    assert.deepEqual(await readChanges(database.query, database.dialect, 'rule', 0, FIRST_MS), [])
  })
})
