import assert from 'node:assert/strict'
import { test } from 'node:test'
import { STATE_TABLE_NAMES } from '../../src/limiter/stores/sql/state-cleanup.js'
import { ROLLUPS } from '../../src/log/rollups/counting.js'
import { openDatabase } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'

test('no index of counters, of the log or of its sums compares texts by the rules of a language', {
  skip: postgresqlMissing,
}, async (t) => {
  const { database, schema } = await openDatabase(t, 'postgresql')
  const tables = [...STATE_TABLE_NAMES, 'rate_limit_event', ...ROLLUPS.map(({ table }) => table)]
  const found = await database.query<{ name: string; collation: string }>(
    `SELECT relname AS name, collname AS collation FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
       JOIN pg_attribute ON attrelid = indexrelid JOIN pg_collation ON pg_collation.oid = attcollation
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
       AND ${database.dialect.isOneOf('relname::text', '$2', 'text')}`,
    [schema, JSON.stringify(tables)],
  )
  assert.deepEqual(new Set(found.map(({ name }) => name)), new Set(tables))
  assert.deepEqual(
    found.filter(({ collation }) => collation !== 'C'),
    [],
  )
})
