import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { csvRow } from '../../src/reports/csv.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

describe('a row of CSV', () => {
  const rows: readonly [cell: string, written: string][] = [
    ['ip:203.0.113.7', 'ip:203.0.113.7'],
    ['', ''],
    ['a,b', '"a,b"'],
    ['say "hi"', '"say ""hi"""'],
    ['two\nlines', '"two\nlines"'],
    ['two\r\nlines', '"two\r\nlines"'],
    ['=1+1', '"\'=1+1"'],
    ['+1', '"\'+1"'],
    ['-1', '"\'-1"'],
    ['@SUM(A1)', '"\'@SUM(A1)"'],
    ['\t=1', '"\'\t=1"'],
    ['x;=cmd()', '"x;=cmd()"'],
    ['x\t=cmd()', '"x\t=cmd()"'],
    ['\r=1', '"\'\r=1"'],
    ['=HYPERLINK("http://a","b")', '"\'=HYPERLINK(""http://a"",""b"")"'],
    ['a=1', 'a=1'],
    ["'already", '"\'already"'],
    ["it's", '"it\'s"'],
    ['/a b?c=d&e', '/a b?c=d&e'],
  ]
  for (const [cell, written] of rows) {
    test(`writes ${JSON.stringify(cell)} as ${JSON.stringify(written)}`, () => {
      assert.equal(csvRow([cell, 3]), `${written},3\r\n`)
    })
  }
})

forEachDatabase((_provider, open) => {
  test('offenders are exported below a header line', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'bad', blocked: 4, atMs: clock.now() })
    await logEvents(client, { key: 'worse,"much"', blocked: 5, atMs: clock.now() })
    const analytics = analyticsFor(database, clock)

    assert.equal(await analytics.offendersCsv(), 'key,blocked_count\r\n"worse,""much""",5\r\nbad,4\r\n')
    assert.equal(await analytics.offendersCsv({ limit: 1 }), 'key,blocked_count\r\n"worse,""much""",5\r\n')
  })

  test('an export without offenders is its header line', async (t) => {
    const { database, close } = await open()
    t.after(close)

    assert.equal(await analyticsFor(database, fakeClock(), undefined).offendersCsv(), 'key,blocked_count\r\n')
  })
})
