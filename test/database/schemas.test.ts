import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { atEnd } from '../support/at-end.js'
import { forEachDatabase } from '../support/databases.js'
import { migrateDiff } from '../support/schema-engine.js'

const EMPTY = '-- This is an empty migration.'

/** What is written and read in SQL alone: the rollups, and how far each process has written the log. */
const TABLES_WITHOUT_MODEL = [
  'rate_limit_blocked_rollup',
  'rate_limit_client_key',
  'rate_limit_client_rollup',
  'rate_limit_event_batch',
  'rate_limit_notice',
  'rate_limit_request_rollup',
  'rate_limit_rollup_mark',
  'rate_limit_rule_rollup',
  'rate_limit_traffic_rollup',
  'rate_limit_trend',
  'rate_limit_usage',
  'rate_limit_watermark',
]

function readSchema(provider: string): string {
  return readFileSync(join(PACKAGE_ROOT, 'prisma', provider, 'schema.prisma'), 'utf8')
}

/** The models of a schema, without what the two databases have to spell differently. */
function modelsOf(provider: string): string[] {
  const schema = readSchema(provider)
  const models = schema.slice(schema.indexOf('model '))
  return models
    .replace(/ @db\.\w+(?:\(\d+\))?/g, '')
    .replace(/@default\((?:now|dbgenerated)\(\)\)/g, '@default(now)')
    .replace(/^(\s*id\s+)(?:Int|BigInt)(\s+@id)/gm, '$1Id$2')
    .replace(/^(\s*windows\s+)(?:String\??|BigInt\[\])/gm, '$1List')
    .split('\n')
    .map((line) => line.trim().replace(/\s+/g, ' '))
    .filter((line) => line !== '' && !line.startsWith('//'))
}

test('the schemas of SQLite and PostgreSQL have the same models', () => {
  const sqlite = modelsOf('sqlite')
  assert.ok(sqlite.length > 50)
  assert.deepEqual(modelsOf('postgresql'), sqlite)
})

forEachDatabase((provider, open) => {
  test('the migrations make the tables of the schema: Prisma finds nothing to change', async (t) => {
    const database = await open()
    atEnd(t, database.close)
    assert.equal(await migrateDiff(provider, database, readSchema(provider), TABLES_WITHOUT_MODEL), EMPTY)
    const another = readSchema(provider).replace('  note        String ', '  remark      String ')
    assert.match(await migrateDiff(provider, database, another, TABLES_WITHOUT_MODEL), /"remark" TEXT NOT NULL/)
  })
})
