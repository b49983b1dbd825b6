import assert from 'node:assert/strict'
import { test } from 'node:test'
import { insertUsageSql, usageValues } from '../../src/log/usage/usage-table.js'
import { atEnd } from '../support/at-end.js'
import { forAnyDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

const ROW = { unit: 'tokens', policy: 'llm', requests: 1 }
const NOVEMBER = Date.UTC(2026, 10, 5)

forAnyDatabase((_provider, open) => {
  test('usage prints a month by client, day and month, as text, JSON and CSV', async (t) => {
    const { database, url, schema, close } = await open()
    atEnd(t, close)
    const sums = [
      { ...ROW, client: 'user:7', amount: 1_200, firstMs: NOVEMBER },
      { ...ROW, client: 'user:7', amount: 34, firstMs: NOVEMBER + 86_400_000 },
      { ...ROW, client: '=1+1\u001b[2J', amount: 9_999, firstMs: NOVEMBER },
      { ...ROW, client: 'user:7', amount: 5, firstMs: Date.UTC(2026, 11, 1) },
    ]
    await database.execute(insertUsageSql(database.dialect), [JSON.stringify(sums.map(usageValues))])
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_SCHEMA: schema }
    const usage = async (...args: string[]) => {
      const { status, stdout, stderr } = await ratelimit(['usage', '--unit', 'tokens', ...args], { env })
      assert.deepEqual([status, stderr], [0, ''])
      return stdout
    }
    const month = ['--month', '2026-11']
    assert.equal(
      await usage(...month),
      '  AMOUNT  REQUESTS  CLIENT\n   9,999         1  =1+1\\u001b[2J\n   1,234         2  user:7\n',
    )
    assert.deepEqual(JSON.parse(await usage(...month, '--client', 'user:7', '--by', 'day', '--json')), {
      rows: [
        { day: '2026-11-05', amount: 1_200, requests: 1 },
        { day: '2026-11-06', amount: 34, requests: 1 },
      ],
      cursor: null,
    })
    assert.equal(
      await usage(...month, '--csv'),
      `client,unit,amount,requests\r\n"'=1+1\u001b[2J",tokens,9999,1\r\nuser:7,tokens,1234,2\r\n`,
    )
    assert.equal(await usage('--month', '2025-11'), 'No usage of tokens.\n')
    const more = await ratelimit(['usage', '--unit', 'tokens', ...month, '--limit', '1'], { env })
    assert.match(more.stderr, /there are more than 1: give a higher --limit, or --csv/)
    for (const [args, complaint] of [
      [['--month', '2026-13'], /--month is "2026-13": give one such as 2026-11/],
      [['--unit', 'Tokens'], /"unit" is "Tokens": give at most 30/],
      [['--month', '2026-11', '--since', '2026-11-01'], /cannot be used with/],
      [['--csv', '--json'], /cannot be used with/],
    ] as const) {
      const { status, stderr } = await ratelimit(['usage', '--unit', 'tokens', ...args], { env })
      assert.equal(status, 2)
      assert.match(stderr, complaint)
    }
  })
})
