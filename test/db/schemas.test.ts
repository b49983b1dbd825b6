import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/package-root.js'

/** The models of a schema, without what the two databases have to spell differently. */
function modelsOf(provider: string): string[] {
  const schema = readFileSync(join(PACKAGE_ROOT, 'prisma', provider, 'schema.prisma'), 'utf8')
  const models = schema.slice(schema.indexOf('model '))
  return models
    .replace(/ @db\.\w+(?:\(\d+\))?/g, '')
    .replace(/@default\((?:now\(\)|dbgenerated\("\(CAST\(ROUND\(.*?\) AS INTEGER\)\)"\))\)/g, '@default(now)')
    .replace(/^(\s*id\s+)(?:Int|BigInt)(\s+@id)/gm, '$1Id$2')
    .split('\n')
    .map((line) => line.trim().replace(/\s+/g, ' '))
    .filter((line) => line !== '' && !line.startsWith('//'))
}

test('the schemas of SQLite and PostgreSQL have the same models', () => {
  const sqlite = modelsOf('sqlite')
  assert.ok(sqlite.length > 50)
  assert.deepEqual(modelsOf('postgresql'), sqlite)
})
