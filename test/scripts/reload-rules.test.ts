import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit reload-rules', () => {
  let database: TestDatabase
  before(async () => {
    database = await openTestDatabase('sqlite')
  })
  after(() => database.close())

  function reloadRules(...args: string[]) {
    return ratelimit(['reload-rules', ...args], { env: { RATELIMIT_DATABASE_URL: database.url } })
  }

  test('counts the active rules', async () => {
    const { rateLimitRule } = database.client
    await rateLimitRule.create({ data: { name: 'on', pathPattern: '^/api/', rate: '5/m' } })
    await rateLimitRule.create({ data: { name: 'off', pathPattern: '^/api/', rate: '5/m', isActive: false } })
    assert.deepEqual(await reloadRules(), {
      status: 0,
      stdout: 'Rate-limit rule cache reloaded (1 active rule(s)).\n',
      stderr: '',
    })
  })

  test('names a rule that raw SQL made wrong, and does not count it', async () => {
    await database.database.execute(
      `INSERT INTO rate_limit_rule (name, path_pattern, rate) VALUES ('broken', '[unclosed', '5/m')`,
    )
    const text = await reloadRules()
    assert.equal(text.status, 0)
    assert.equal(text.stdout, 'Rate-limit rule cache reloaded (1 active rule(s)).\n')
    assert.match(text.stderr, /^ratelimit reload-rules: rule "broken" is left out: .*pathPattern.*\n$/)
    const json = JSON.parse((await reloadRules('--json')).stdout)
    assert.equal(json.active, 1)
    assert.equal(json.rejected[0].name, 'broken')
  })
})
