import { NOTHING, sumOf, type TrafficCounts } from './breakdown.js'
import { inRange, Parameters } from './filter.js'
import { type Period, partsOf, SPANS } from './period.js'
import { eventCounts, SUMS } from './traffic.js'
import { duringPeriod, type Snapshot } from './window.js'

type Source = Pick<Snapshot, 'query' | 'dialect'>

interface HourRow extends TrafficCounts {
  readonly hour: number
  readonly path: string
  readonly rule_name: string
  readonly method: string
}

interface RollupRow extends TrafficCounts {
  readonly span: number
  readonly bucket: number
  readonly path: string
  readonly rule_name: string
  readonly method: string
}

/**
 * Counts the rows of the rollups, and of the trend, that do not agree with the events of a period of whole days: what
 * the rollups have, and the deltas will add, has to be what the events are.
 */
export async function differencesOf(source: Source, period: Period): Promise<number> {
  const traffic = await trafficDifferences(source, period)
  return traffic + (await blockedDifferences(source, period)) + (await trendDifferences(source, period))
}

async function trafficDifferences(source: Source, period: Period): Promise<number> {
  const rollups = await readRollups<RollupRow>(source, period, 'rate_limit_traffic_rollup')
  const found = new Map(rollups.map((row) => [nameOf(row.span, row.bucket, row), row]))
  const expected = new Map<string, TrafficCounts>()
  for (const row of await readDue(source, period)) {
    for (const span of SPANS) {
      const bucket = Math.floor(row.hour / span)
      const own = nameOf(span, bucket, row)
      // What has no row of its own is counted without its path.
      const name = found.has(own) ? own : nameOf(span, bucket, { ...row, path: '' })
      expected.set(name, sumOf([expected.get(name) ?? NOTHING, row]))
    }
  }
  return countWrong(expected, found, (one, other) => areEqual(one ?? NOTHING, other ?? NOTHING))
}

async function blockedDifferences({ query, dialect }: Source, period: Period): Promise<number> {
  const parameters = new Parameters()
  const due = await query<{ hour: number; key: string; blocked: number }>(
    `SELECT hour, key, SUM(blocked) AS blocked FROM (
       SELECT ${dialect.hourOf('"timestamp"')} AS hour, key, 1 AS blocked FROM ${dialect.table('rate_limit_event')}
       WHERE allowed = false AND ${duringPeriod(dialect, period, parameters)}
       UNION ALL SELECT hour, key, -blocked FROM ${dialect.table('rate_limit_rollup_delta')}
       WHERE key IS NOT NULL AND ${duringHours(period, parameters)}
     ) AS due GROUP BY hour, key`,
    parameters.values,
  )
  const rollups = await readRollups<{ span: number; bucket: number; key: string; blocked: number }>(
    { query, dialect },
    period,
    'rate_limit_blocked_rollup',
  )
  const found = new Map(rollups.map(({ span, bucket, key, blocked }) => [`${span} ${bucket} ${key}`, blocked]))
  const expected = new Map<string, number>()
  for (const { hour, key, blocked } of due) {
    for (const span of SPANS) {
      const name = `${span} ${Math.floor(hour / span)} ${key}`
      expected.set(name, (expected.get(name) ?? 0) + blocked)
    }
  }
  return countWrong(expected, found, (one = 0, other = 0) => one === other)
}

/** The trend has what was deleted since too: it may have more than there is, never less. */
async function trendDifferences({ query, dialect }: Source, period: Period): Promise<number> {
  const parameters = new Parameters()
  const [counted] = await query<{ missing: number }>(
    `SELECT COUNT(*) AS missing FROM (
       SELECT hour FROM (
         SELECT ${dialect.hourOf('"timestamp"')} AS hour, 1 AS missing FROM ${dialect.table('rate_limit_event')}
         WHERE ${duringPeriod(dialect, period, parameters)}
         UNION ALL SELECT hour, -total FROM ${dialect.table('rate_limit_trend')} WHERE ${duringHours(period, parameters)}
         UNION ALL SELECT hour, -total FROM ${dialect.table('rate_limit_rollup_delta')}
         WHERE is_deletion = false AND ${duringHours(period, parameters)}
       ) AS counts GROUP BY hour HAVING SUM(missing) > 0
     ) AS hours`,
    parameters.values,
  )
  return counted?.missing ?? 0
}

/** What the rollups ought to have: the events, without what the deltas will still add. */
function readDue({ query, dialect }: Source, period: Period): Promise<HourRow[]> {
  const parameters = new Parameters()
  return query<HourRow>(
    `SELECT hour, path, rule_name, method, ${SUMS} FROM (
       SELECT ${dialect.hourOf('"timestamp"')} AS hour, path, rule_name, method, ${eventCounts()}
       FROM ${dialect.table('rate_limit_event')} WHERE ${duringPeriod(dialect, period, parameters)}
       UNION ALL SELECT hour, path, rule_name, method, -total, -blocked, -would_block
       FROM ${dialect.table('rate_limit_rollup_delta')} WHERE ${duringHours(period, parameters)}
     ) AS due GROUP BY hour, path, rule_name, method`,
    parameters.values,
  )
}

function readRollups<Row>({ query, dialect }: Source, period: Period, table: string): Promise<Row[]> {
  const { from, to } = partsOf(period).hours
  const parameters = new Parameters()
  const rows = SPANS.map((span) => {
    const buckets = { from: from / span, to: Math.floor(to / span) }
    return `SELECT * FROM ${dialect.table(table)} WHERE span = ${span} AND ${inRange('bucket', buckets, parameters)}`
  })
  return query<Row>(rows.join(' UNION ALL '), parameters.values)
}

function duringHours(period: Period, parameters: Parameters): string {
  return inRange('hour', partsOf(period).hours, parameters)
}

function nameOf(span: number, bucket: number, row: Pick<RollupRow, 'path' | 'rule_name' | 'method'>): string {
  return JSON.stringify([span, bucket, row.path, row.rule_name, row.method])
}

function areEqual(one: TrafficCounts, other: TrafficCounts): boolean {
  return one.total === other.total && one.blocked === other.blocked && one.would_block === other.would_block
}

function countWrong<Counts>(
  expected: ReadonlyMap<string, Counts>,
  found: ReadonlyMap<string, Counts>,
  agree: (one: Counts | undefined, other: Counts | undefined) => boolean,
): number {
  const names = new Set([...expected.keys(), ...found.keys()])
  return [...names].filter((name) => !agree(expected.get(name), found.get(name))).length
}
