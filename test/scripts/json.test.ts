import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { COMMANDS } from '../../scripts/commands/index.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

/** What a command has to be given besides its name. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  alerts: ['--threshold', '5'],
  'override add': ['203.0.113.7', 'deny'],
  'override remove': ['203.0.113.9'],
  preview: ['--name', 'api'],
  'rules import': ['-', '--keep'],
}
const INPUT: Readonly<Record<string, string>> = {
  'hash-password': 'correct horse',
  'rules import': '{"version":1,"rules":[]}',
}

describe('with --json', () => {
  let database: TestDatabase
  before(async () => {
    database = await openTestDatabase('sqlite')
    await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '5/m' } })
  })
  after(() => database.close())

  for (const { name } of COMMANDS) {
    test(`${name} prints one line with one object, also where something failed`, async () => {
      const { status, stdout } = await ratelimit([...name.split(' '), ...(WORDS[name] ?? []), '--json'], {
        env: { RATELIMIT_DATABASE_URL: database.url },
        input: INPUT[name] ?? '',
      })
      assert.equal(status, name === 'override remove' ? 1 : 0)
      assert.match(stdout, /^\{.*\}\n$/)
      assert.equal(typeof JSON.parse(stdout), 'object')
    })
  }
})
