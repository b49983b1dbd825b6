import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadAskedReports } from '../../src/plugin/reports.js'
import { toToolReport } from '../../src/staff/api/report-routes.js'
import { atEnd } from '../support/at-end.js'
import { forAnyDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { ratelimit } from '../support/scripts.js'

/** The options that a report requires. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  offender: ['--set', 'key=203.0.113.7'],
  client: ['--set', 'client=user:7'],
  usage: ['--set', 'unit=tokens'],
}

forAnyDatabase((_provider, open) => {
  test('every registered report is printed, lists as tables and CSV too', async (t) => {
    const { database, url, schema, close } = await open()
    atEnd(t, close)
    await logRows(database, [{ timestampMs: Date.now() - 1_000, allowed: false, key: '=1+1', outcome: 'over_limit' }])
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_SCHEMA: schema }
    const report = (...args: string[]) => ratelimit(['report', ...args], { env })

    for (const { path } of (await loadAskedReports()).map(toToolReport)) {
      const { status, stdout, stderr } = await report(path, ...(REQUIRED[path] ?? []), '--json')
      assert.deepEqual([status, stderr], [0, ''], path)
      assert.equal(typeof JSON.parse(stdout), 'object')
    }
    assert.equal((await report('offenders')).stdout, '   KEY  BLOCKED_COUNT\n  =1+1  1\n')
    assert.equal((await report('offenders', '--csv')).stdout, `key,blocked_count\r\n"'=1+1",1\r\n`)
    assert.equal(
      (await report('offenders', '--set', 'since=2026-01-01T00:00:00Z', 'until=2026-01-02T00:00:00Z')).stdout,
      'The list is empty.\n',
    )
    assert.match((await report('summary', '--set', 'days=2')).stdout, /^\{\n {2}"days": 2,\n {2}"total": 1,/)

    for (const [args, complaint] of [
      [['everything'], /there is no report "everything": give one of summary, offenders, rule-hits/],
      [['summary', '--csv'], /summary is no list: leave --csv out/],
      [['summary', '--set', 'days'], /--set is "days": give an option and its value, such as days=7/],
      [['summary', '--set', 'days=0'], /days must be > 0/],
      [['summary', '--set', 'limit=1'], /limit does not exist: give one of days, since, until/],
      [['client'], /client is required/],
      [['summary', '--set', 'days=1', 'since=2026-01-01T00:00:00Z'], /"days" and "since" are both set/],
    ] as const) {
      const { status, stderr } = await report(...args)
      assert.equal(status, 2, stderr)
      assert.match(stderr, complaint)
    }
  })
})
