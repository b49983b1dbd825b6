import type { LogSnapshot, Report } from '../../../src/analytics/window.js'
import type { SqlValue } from '../../../src/db/dialect.js'
import { DAY_MS } from '../../../src/time/clock.js'

const DAYS = 7

/** The reports without rollups: plain queries over the events. */
export const PLAIN_REPORTS: Readonly<Record<string, Report<unknown>>> = {
  'Traffic summary': (snapshot) => countByAllowed(snapshot, DAYS, 0),
  'Top offenders': (snapshot) =>
    run(snapshot, DAYS, 0, 'SELECT key, COUNT(*)', 'allowed = false', 'GROUP BY key ORDER BY COUNT(*) DESC LIMIT 20'),
  'Rule hits': (snapshot) =>
    run(
      snapshot,
      DAYS,
      0,
      'SELECT rule_name, COUNT(*), COUNT(*) FILTER (WHERE allowed = false)',
      "rule_name <> ''",
      'GROUP BY rule_name ORDER BY COUNT(*) DESC LIMIT 20',
    ),
  Dashboard: dashboard,
}

/** Runs the reports of the page: the three above and similar ones, today and before, by path, by method, over time. */
async function dashboard(snapshot: LogSnapshot): Promise<void> {
  for (const name of ['Traffic summary', 'Top offenders', 'Rule hits']) await PLAIN_REPORTS[name]?.(snapshot)
  await countByAllowed(snapshot, 1, 0)
  await countByAllowed(snapshot, 1, 1)
  await countByAllowed(snapshot, DAYS, DAYS)
  for (const column of ['path', 'method', `${snapshot.dialect.toMinute('"timestamp"')} / 60`]) {
    await run(
      snapshot,
      DAYS,
      0,
      `SELECT ${column}, COUNT(*), COUNT(*) FILTER (WHERE allowed = false)`,
      'true',
      `GROUP BY ${column} ORDER BY COUNT(*) DESC LIMIT 200`,
    )
  }
}

function countByAllowed(snapshot: LogSnapshot, days: number, daysAgo: number): Promise<unknown> {
  return run(snapshot, days, daysAgo, 'SELECT allowed, COUNT(*)', 'allowed IN (true, false)', 'GROUP BY allowed')
}

function run(
  { query, dialect, nowMs }: LogSnapshot,
  days: number,
  daysAgo: number,
  select: string,
  where: string,
  rest: string,
): Promise<unknown> {
  const endMs = nowMs - daysAgo * DAY_MS
  const parameters: SqlValue[] = [endMs - days * DAY_MS, endMs]
  return query(
    `${select} FROM ${dialect.table('rate_limit_event')}
     WHERE ${where} AND "timestamp" >= ${dialect.fromMs('$1')} AND "timestamp" < ${dialect.fromMs('$2')} ${rest}`,
    parameters,
  )
}
