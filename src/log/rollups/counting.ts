/** The rule of counting: the same statements count events the first time, count them again, and add hours to days. */
import type { Dialect, SharedQuery } from '../../database/dialect.js'
import {
  BESIDE,
  besideRows,
  CLIENT,
  countedRequests,
  eventCounts,
  HAS_OTHER_KEY,
  IS_REFUSED,
  IS_REFUSED_BESIDE,
  IS_UNAVAILABLE,
  POLICY,
} from '../event-sql.js'

/** The length of a bucket in minutes. */
export type Span = 1 | 60 | 1440
export const HOUR_SPAN = 60
export const DAY_SPAN = 1440
/** The time for which buckets of one minute are kept, in minutes: a window of an hour, and the one before it. */
export const KEPT_MINUTES = 120

/** A table of counts per bucket. */
export interface Rollup {
  readonly table: string
  /** The columns that identify a row within its bucket; `counts` are the ones that are summed. */
  readonly keys: readonly string[]
  readonly counts: readonly string[]
  /** The key by whose ranges a day is counted from its hours; undefined where the rows depend on each other. */
  readonly sliced?: string
  /** Whether `keys` has the paths, of which a bucket has room for so many. */
  readonly hasPaths?: true
  /** Returns the rows that are counted; the events as they are unless given. */
  readonly rows?: (dialect: Dialect, events: string) => string
  /** The buckets into which events are folded. Days that are not among them are counted when their hours are over. */
  readonly spans: readonly Span[]
}

const TRAFFIC: Rollup = {
  table: 'rate_limit_traffic_rollup',
  keys: ['path', 'rule_name', 'method'],
  counts: ['total', 'blocked', 'would_block', 'denied'],
  hasPaths: true,
  spans: [1, HOUR_SPAN, DAY_SPAN],
}
/** The requests to which rules applied beside the one that decided. `refused` are those that the rule itself refused. */
const RULES_BESIDE: Rollup = {
  table: 'rate_limit_rule_rollup',
  keys: ['path', 'rule_name', 'method'],
  counts: ['total', 'blocked', 'would_block', 'refused'],
  hasPaths: true,
  rows: (dialect, events) =>
    `SELECT minute, path, ${BESIDE} AS rule_name, method, total, blocked, would_block,
       CASE WHEN ${IS_REFUSED_BESIDE} THEN total ELSE 0 END AS refused
     FROM ${besideRows(dialect, `(${events})`)}`,
  spans: [1, HOUR_SPAN, DAY_SPAN],
}
/** The requests of each client, of which `trim-clients.ts` keeps those of the busiest. */
export const REQUESTS: Rollup & { readonly sliced: string } = {
  table: 'rate_limit_request_rollup',
  keys: ['client', 'policy'],
  counts: ['requests'],
  sliced: 'client',
  spans: [1, HOUR_SPAN],
}
/** The clients that were not plainly allowed. */
export const CLIENTS: Rollup = {
  table: 'rate_limit_client_rollup',
  keys: ['client', 'policy'],
  counts: ['over_limit', 'would_block', 'denied', 'unavailable'],
  sliced: 'client',
  spans: [1, HOUR_SPAN, DAY_SPAN],
}
export const ROLLUPS: readonly Rollup[] = [
  TRAFFIC,
  RULES_BESIDE,
  {
    table: 'rate_limit_blocked_rollup',
    keys: ['key'],
    counts: ['blocked'],
    sliced: 'key',
    spans: [1, HOUR_SPAN, DAY_SPAN],
  },
  CLIENTS,
  REQUESTS,
]

/** The table of the keys that do not tell the client, by day. */
export const CLIENT_KEYS = 'rate_limit_client_key'

/** The most combinations of path, rule and method that have rows of their own in a bucket. */
const MAX_COMBINATIONS = 256

const EVENT_KEYS = ['minute', 'path', 'rule_name', 'method', 'rules', 'key', 'client', 'policy', 'is_marked']
const EVENT_COUNTS = ['requests', ...TRAFFIC.counts, 'over_limit', 'unavailable']

/**
 * Returns the query of events as rows to count. Most events of a minute are alike: these are one row. `is_marked` is 1
 * for events that are left to the recount of their hour.
 */
export function eventSums(dialect: Dialect, condition: string): SharedQuery {
  const minute = dialect.toMinute('"timestamp"')
  const sums = EVENT_COUNTS.map((count) => `SUM(${count}) AS ${count}`).join(', ')
  return {
    name: 'rate_limit_event_sums',
    columns: [...EVENT_KEYS, ...EVENT_COUNTS],
    sql: `SELECT ${EVENT_KEYS.join(', ')}, ${sums} FROM (
        SELECT ${minute} AS minute, path, rule_name, method, rules, key, ${CLIENT} AS client, ${POLICY} AS policy,
          CASE WHEN "timestamp" >= ${dialect.fromMs('since')} THEN 1 ELSE 0 END AS is_marked, weight AS requests, ${eventCounts()},
          ${countedRequests(`${IS_REFUSED} AND outcome <> 'unavailable'`)} AS over_limit,
          ${countedRequests(IS_UNAVAILABLE)} AS unavailable
        FROM ${dialect.table('rate_limit_event')} LEFT JOIN (
          SELECT hour, MIN(since) AS since FROM ${dialect.table('rate_limit_rollup_mark')} GROUP BY hour
        ) AS marked ON hour = ${minute} / ${HOUR_SPAN}
        WHERE ${condition}
      ) AS events GROUP BY ${EVENT_KEYS.join(', ')}`,
  }
}

/** Returns the statements that count events in all sums. */
export function countEventsSql(
  dialect: Dialect,
  events: string,
  spansFor: (rollup: Rollup) => readonly Span[],
  firstMinute: string,
): string[] {
  return ROLLUPS.map((rollup) => {
    const { rows = (_, source) => source } = rollup
    return countSql(dialect, rollup, rows(dialect, events), spansFor(rollup), firstMinute)
  })
}

/** Returns a SELECT of the rows of hours, to be counted into days. */
export function hourSource(dialect: Dialect, { table, keys, counts }: Rollup, condition: string): string {
  return `SELECT bucket * ${HOUR_SPAN} AS minute, ${[...keys, ...counts].join(', ')}
    FROM ${dialect.table(table)} WHERE span = ${HOUR_SPAN} AND ${condition}`
}

/**
 * Returns the statement that adds the rows of a source to a rollup.
 *
 * @param firstMinute the placeholder of the first minute that gets a bucket of its own
 */
export function countSql(
  dialect: Dialect,
  rollup: Rollup,
  source: string,
  spans: readonly Span[],
  firstMinute: string,
): string {
  const { keys, counts, hasPaths = false } = rollup
  const table = dialect.table(rollup.table)
  const names = ['span', 'bucket', ...keys].join(', ')
  const sums = counts.map((count) => `SUM(${count}) AS ${count}`).join(', ')
  // Added up once for all spans.
  const minutes = `SELECT minute, ${keys.join(', ')}, ${sums} FROM (${source}) AS events
    WHERE minute >= 0 AND ${counts.join(' + ')} > 0 GROUP BY minute, ${keys.join(', ')}`
  const allSpans = `(${spans.map((span) => `SELECT ${span} AS span`).join(' UNION ALL ')}) AS spans`
  const hasBucket = `(span > 1 OR minute >= ${firstMinute})`
  const counted = hasPaths
    ? withRoom(table, minutes, allSpans, hasBucket, sums)
    : `SELECT span, minute / span AS bucket, ${keys.join(', ')}, ${sums}
         FROM (${minutes}) AS minutes CROSS JOIN ${allSpans} WHERE ${hasBucket}
         GROUP BY span, minute / span, ${keys.join(', ')}`
  return `INSERT INTO ${table} AS rollup (${names}, ${counts.join(', ')})
    ${counted}
    ON CONFLICT (${names}) DO UPDATE SET ${counts.map((count) => `${count} = rollup.${count} + excluded.${count}`).join(', ')}`
}

/**
 * Gives the busiest of the new combinations the room that is left in their bucket, and omits the paths of others. Most
 * buckets of a host with many paths are full: their new combinations are added up before any are ranked. Stored
 * combinations are looked up one by one: PostgreSQL would compare each combination with each of the bucket, and for EXISTS it may read
 * the whole table.
 */
function withRoom(table: string, minutes: string, spans: string, hasBucket: string, sums: string): string {
  const inBucket = (row: string) =>
    `FROM ${table} AS stored WHERE stored.span = ${row}.span AND stored.bucket = ${row}.bucket`
  return `WITH minutes AS MATERIALIZED (${minutes}), buckets AS (
      SELECT minute, span, minute / span AS bucket
      FROM (SELECT DISTINCT minute FROM minutes) AS times CROSS JOIN ${spans} WHERE ${hasBucket}
    ), rooms AS MATERIALIZED (
      SELECT buckets.*, ${MAX_COMBINATIONS} - (SELECT COUNT(*) ${inBucket('buckets')} AND path <> '') AS room FROM buckets
    ), marked AS (
      SELECT span, bucket, room, minutes.*, (SELECT 1 ${inBucket('rooms')} AND stored.path = minutes.path
        AND stored.rule_name = minutes.rule_name AND stored.method = minutes.method LIMIT 1) IS NOT NULL AS is_stored
      FROM rooms JOIN minutes USING (minute)
    ), counted AS (
      SELECT span, bucket, room, rule_name, method, CASE WHEN is_stored OR room > 0 THEN path ELSE '' END AS shown_path,
        CASE WHEN is_stored OR room <= 0 OR path = '' THEN 1 ELSE 0 END AS has_row, ${sums}
      FROM marked GROUP BY span, bucket, room, rule_name, method, shown_path, has_row
    ), ranked AS (
      SELECT counted.*, ROW_NUMBER() OVER (
        PARTITION BY span, bucket, has_row ORDER BY total DESC, shown_path, rule_name, method
      ) AS rank FROM counted
    )
    SELECT span, bucket, CASE WHEN has_row = 1 OR rank <= room THEN shown_path ELSE '' END AS kept_path, rule_name, method, ${sums}
    FROM ranked WHERE true GROUP BY span, bucket, kept_path, rule_name, method`
}

/** Returns the statement that notes the keys of events that do not tell their clients. */
export function clientKeysSql(dialect: Dialect, source: string): string {
  return `INSERT INTO ${dialect.table(CLIENT_KEYS)} (client, day, key)
    SELECT DISTINCT client, minute / ${DAY_SPAN}, key FROM (${source}) AS events WHERE minute >= 0 AND ${HAS_OTHER_KEY}
    ON CONFLICT (client, day, key) DO NOTHING`
}

/** Returns the statement that adds events to the trend, which keeps the sums of each hour after events are deleted. */
export function trendSql(dialect: Dialect, source: string): string {
  const { counts } = TRAFFIC
  return `INSERT INTO ${dialect.table('rate_limit_trend')} AS trend (hour, ${counts.join(', ')})
    SELECT minute / ${HOUR_SPAN}, ${counts.map((count) => `SUM(${count})`).join(', ')}
    FROM (${source}) AS events WHERE minute >= 0 GROUP BY minute / ${HOUR_SPAN}
    ON CONFLICT (hour) DO UPDATE SET ${counts.map((count) => `${count} = trend.${count} + excluded.${count}`).join(', ')}`
}
