/**
 * Another process that edits a rule: `node --import tsx rule-editor.ts <url> <schema> client|sql <name> <rate>`. It says
 * `ready` when it can, edits when it is told to by a line on standard input, and says `done`.
 */

import { databaseFor } from '../../src/database/database.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'

const [url, schema, door, name = '', rate = ''] = process.argv.slice(2)
const client = createRateLimitClient({ database: url, schema })
const database = databaseFor(client)
await client.rateLimitRule.count()
console.log('ready')
await new Promise((resolve) => process.stdin.once('data', resolve))
if (door === 'client') {
  await client.rateLimitRule.update({ where: { name }, data: { rate } })
} else {
  const table = database.dialect.table('rate_limit_rule')
  await database.execute(`UPDATE ${table} SET rate = $1 WHERE name = $2`, [rate, name])
}
console.log('done')
await client.$disconnect()
process.exit()
