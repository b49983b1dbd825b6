import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Dialect, Query } from '../db/dialect.js'
import type { RateLimitEvent } from '../events/event.js'

type Logged = 'timestampMs' | 'key' | 'ruleName' | 'path' | 'method' | 'allowed' | 'userId' | 'clientIp'

/** A row of the event log, as far as a replay needs it. Its `key` is empty where that would only say the address again. */
export interface LoggedRequest extends Pick<RateLimitEvent, Logged> {
  readonly id: number
  /** Whether the request was within its limit then. */
  readonly within: boolean
  /** Whether it has the mark of the deny list; a static limit of 0 leaves the same. */
  readonly denied: boolean
}

/** The same in the order of `COLUMNS`. SQLite knows no truth values. */
type Row = readonly [
  id: number,
  timestampMs: number,
  key: string,
  ruleName: string,
  path: string,
  method: string,
  allowed: boolean | number,
  within: boolean | number,
  denied: boolean | number,
  userId: number | null,
  clientIp: string | null,
]

const COLUMNS = `CASE WHEN client_ip IS NULL THEN key ELSE '' END AS key, rule_name, path, method, allowed, count <= "limit" AS within,
  rule_name = '' AND NOT allowed AND count = 1 AND "limit" = 0 AS denied, user_id, client_ip`
const ROW = 'id, at, key, rule_name, path, method, allowed, within, denied, user_id, client_ip'

/**
 * One statement's worth. On SQLite a page is read and replayed in the server's own thread, in a few milliseconds;
 * with smaller ones PostgreSQL would spend its time on statements rather than on rows.
 */
const PAGE_SIZE = 1_000

/** Reads the log in the order of time, page by page; between two pages others have their turn. */
export async function* eventPages(
  query: Query,
  dialect: Dialect,
  fromMs: number,
  untilMs: number,
): AsyncGenerator<readonly LoggedRequest[]> {
  // Not a comparison of pairs, for which PostgreSQL would not use the index on the timestamp alone.
  const sql = `SELECT ${dialect.rowsAsJson(ROW)} AS page FROM (
    SELECT id, ${dialect.toMs('"timestamp"')} AS at, ${COLUMNS} FROM ${dialect.table('rate_limit_event')}
    WHERE "timestamp" >= ${dialect.fromMs('$1')} AND ("timestamp" > ${dialect.fromMs('$1')} OR id > $2)
      AND "timestamp" <= ${dialect.fromMs('$3')}
    ORDER BY "timestamp", id LIMIT ${PAGE_SIZE}) AS event`

  async function read(afterMs: number, afterId: number): Promise<LoggedRequest[]> {
    const [answer] = await query<{ page: string | null }>(sql, [afterMs, afterId, untilMs])
    const rows: readonly Row[] = JSON.parse(answer?.page ?? '[]')
    return rows.map(requestOf)
  }

  for (let page = await read(fromMs, -1); ; ) {
    const last = page.at(-1)
    if (last === undefined) return
    if (page.length < PAGE_SIZE) return yield page
    // A server reads the next page while this one is replayed.
    const next = read(last.timestampMs, last.id)
    next.catch(() => undefined)
    yield page
    await yieldToEventLoop()
    page = await next
  }
}

function requestOf(row: Row): LoggedRequest {
  const [id, timestampMs, key, ruleName, path, method, allowed, within, denied, userId, clientIp] = row
  return {
    id,
    timestampMs,
    key,
    ruleName,
    path,
    method,
    allowed: Boolean(allowed),
    within: Boolean(within),
    denied: Boolean(denied),
    userId,
    clientIp,
  }
}

/** When the oldest event there is was recorded; null in an empty log. */
export async function oldestEventMs(query: Query, dialect: Dialect): Promise<number | null> {
  const [row] = await query<{ oldest: number | null }>(
    `SELECT MIN("timestamp") AS oldest FROM ${dialect.table('rate_limit_event')}`,
  )
  return row?.oldest ?? null
}
