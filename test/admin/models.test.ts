import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { MODELS, type ModelFields } from '../../admin/models.js'
import { PACKAGE_ROOT } from '../../src/package-root.js'

/** What is nobody's business but the triggers' and the statements'. */
const NOT_SHOWN = ['changedBy', 'asked', 'cost', 'admitted']

test("the panel's models are those of the schema", () => {
  const schema = readFileSync(join(PACKAGE_ROOT, 'prisma/sqlite/schema.prisma'), 'utf8')
  for (const [name, fields] of Object.entries<ModelFields>(MODELS)) {
    const [, body = ''] = new RegExp(`^model ${name} \\{$(.*?)^\\}$`, 'ms').exec(schema) ?? []
    const stored = [...body.matchAll(/^ {2}(\w+)\s+(String|Boolean|Int|BigInt|DateTime)\b/gm)]
    const expected = stored
      .map(([, field = '', type]) => [field, type])
      .filter(([field = '']) => !NOT_SHOWN.includes(field))
    assert.deepEqual(Object.fromEntries(Object.entries(fields)), Object.fromEntries(expected), name)
  }
})
