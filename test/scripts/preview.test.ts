import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { dateChanges } from '../support/changes.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { ratelimit } from '../support/scripts.js'

const RULE = { name: 'api', pathPattern: '^/api/', rate: '3/m', key: 'header:X-Key' }

describe('ratelimit preview', () => {
  let database: TestDatabase
  let file = ''
  const hour = Math.floor((Date.now() - 2 * HOUR_MS) / HOUR_MS) * HOUR_MS
  before(async () => {
    database = await openTestDatabase('sqlite')
    await database.client.rateLimitRule.create({ data: RULE })
    await dateChanges(database.database, hour - HOUR_MS)
    file = `${database.url.slice('file:'.length)}.rule.json`
    // As editors of some systems write it, with a byte order mark.
    await writeFile(file, `\uFEFF${JSON.stringify({ ...RULE, rate: '2/m' })}`)
    const keyed = { path: '/api/x', ruleName: 'api', atMs: hour + 5 * MINUTE_MS }
    await logEvents(database.client, {
      ...keyed,
      key: 'rule:api:\u001b[31mred\u202e',
      client: 'header:x-key:\u001b[31mred\u202e',
      allowed: 3,
      blocked: 9,
    })
    await logEvents(database.client, {
      ...keyed,
      key: 'rule:api:mild',
      client: 'header:x-key:mild',
      allowed: 1_200,
      atMs: hour - 30 * MINUTE_MS,
    })
    await logEvents(database.client, {
      ...keyed,
      key: 'ip:192.0.2.1',
      ruleName: '',
      path: '/api/\u001b[2J',
      allowed: 12,
    })
    await logEvents(database.client, { ...keyed, key: 'ip:192.0.2.1', ruleName: '', path: '/else', allowed: 5 })
  })
  after(() => database.close())

  function preview(args: readonly string[], input = '') {
    return ratelimit(['preview', ...args], { env: { RATELIMIT_DATABASE_URL: database.url }, input })
  }

  test('prints what the rule of a file would have refused', async () => {
    const { status, stdout, stderr } = await preview(['--file', file])
    assert.deepEqual([status, stderr], [0, ''])
    const time = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')
    assert.deepEqual(
      stdout.split('\n').map((line) => line.replace(/^Rule .*/, 'Rule').replace(/The log begins .*/, 'The log begins')),
      [
        'Rule',
        'Nothing can be said about 12 of 1,229 requests: rule "api" reads header:x-key, which the log does not have. 1,212 of the 1,217 other requests matched; 99.7% of these would have been refused, from 2 clients.',
        'Actually refused: 9. Refused only by this rule: 1,199; allowed only by this rule: 0.',
        '',
        'By hour (UTC):',
        '              hour  matched  refused  refused then',
        `  ${time(hour - HOUR_MS)}    1,200    1,198             0  ##############################`,
        `  ${time(hour)}       24       10             9  #`,
        '',
        'Keys hit most:',
        '  matched  refused  refused then  key',
        '    1,200    1,198             0  rule:api:mild',
        '       12       10             9  rule:api:\\u001b[31mred\\u202e',
        '',
        'Mind:',
        '  The log is not complete:',
        '    The log begins',
        '  Not replayed: 12 requests not counted by this header, and the log keeps no other headers.',
        '',
      ],
    )
    assert.match(stdout, /^Rule "api", \S+ \S+ to \S+ \S+ UTC, 1,229 requests in the log\.\n/)
  })

  test('takes a rule from standard input, and prints the result as JSON without anything a terminal would obey', async () => {
    const { status, stdout } = await preview(['--file', '-', '--hours', '4', '--json'], JSON.stringify(RULE))
    assert.equal(status, 0)
    const result = JSON.parse(stdout)
    assert.deepEqual([result.hours, result.would_refuse, result.refused_then], [4, 1_206, 9])
    assert.equal(result.top_keys[1].key, 'rule:api:\u001b[31mred\u202e')
    assert.deepEqual(result.uncovered, { count: 12, share: 12 / 1_224, reasons: { header_not_logged: 12 } })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for them is the point
    assert.doesNotMatch(stdout, /[\u0000-\u0009\u001b\u202e]/)
  })

  test('tries another rate for a rule of the table', async () => {
    const { status, stdout } = await preview(['--name', 'api', '--rate', '11/m', '--json'])
    assert.equal(status, 0)
    assert.equal(JSON.parse(stdout).would_refuse, 1_190)
  })

  test('says what a rule that does not block would have counted, and that a rule decides nothing', async () => {
    const counting = await preview(['--file', '-'], JSON.stringify({ ...RULE, block: false }))
    assert.match(
      counting.stdout,
      / 1,212 of the 1,217 other requests matched; 99\.5% of these would be refused without block: false, from 2 clients\.$/m,
    )
    const nothing = await preview(['--file', '-'], JSON.stringify({ ...RULE, pathPattern: '^/nothing' }))
    assert.match(nothing.stdout, /^None of 1,229 requests matched\.\n\nMind:\n/m)
  })

  test('begins with what neither the log nor the command knows', async () => {
    const sentenceFor = async (condition: string) => {
      const rule = { name: 'api', pathPattern: '^/', rate: '1/m', condition }
      const { stdout } = await preview(['--file', '-'], JSON.stringify(rule))
      return stdout.split('\n')[1]
    }
    assert.equal(
      await sentenceFor("request.headers['user-agent'].contains('bot')"),
      `Nothing can be said about any of 1,229 requests: rule "api" reads request.headers['user-agent'], which the log does not have.`,
    )
    assert.match(
      (await sentenceFor("inList(client.ip, 'tor')")) ?? '',
      /rule "api" reads inList\(client\.ip, 'tor'\), which this process does not know/,
    )
    assert.match(
      (await sentenceFor("client.country == 'DE'")) ?? '',
      /rule "api" reads client\.country, which this process does not know/,
    )
  })

  test('a wrong rule is one line with all that is wrong, and status 1', async () => {
    const wrong = JSON.stringify({ ...RULE, rate: '5', key: 'cookie', pathpattern: '^/\u001b' })
    const { status, stdout, stderr } = await preview(['--file', '-'], wrong)
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit preview: Invalid rule: pathpattern: .*; rate: .*; key: .*\n$/)
  })

  test('what cannot be read is one line, and status 1', async () => {
    const noJson = await preview(['--file', '-'], '{"name": ')
    assert.equal(noJson.status, 1)
    assert.match(noJson.stderr, /^ratelimit preview: standard input is not valid JSON: .*\n$/)
    const nothing = await preview(['--file', '-'], 'null')
    assert.equal(nothing.status, 1)
    assert.match(nothing.stderr, /^ratelimit preview: standard input is not a rule: give an object .*\n$/)
    const noFile = await preview(['--file', '/nowhere/rule.json'])
    assert.equal(noFile.status, 1)
    assert.match(noFile.stderr, /^ratelimit preview: ENOENT.*\/nowhere\/rule\.json.*\n$/)
    const noRule = await preview(['--name', 'nobody'])
    assert.equal(noRule.status, 1)
    assert.match(noRule.stderr, /^ratelimit preview: there is no rule "nobody": .*\n$/)
  })

  test('no rule, two rules, or too many hours are wrong usage', async () => {
    for (const args of [[], ['--file', file, '--name', 'api'], ['--file', file, '--hours', '721']]) {
      const { status, stderr } = await preview(args)
      assert.equal(status, 2, stderr)
    }
  })
})
