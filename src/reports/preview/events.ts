import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Dialect, Query } from '../../database/dialect.js'
import type { RateLimitEvent } from '../../log/event.js'
import { CLIENT, IS_SUM, OUTCOME } from '../../log/event-sql.js'

type Logged = 'timestampMs' | 'path' | 'method' | 'allowed' | 'userId' | 'client' | 'outcome'

/** A row of the event log, as far as a replay needs it. */
export interface LoggedRequest extends Pick<RateLimitEvent, Logged> {
  readonly id: number
  /** The client's key where the client has a bar; empty otherwise. */
  readonly key: string
  /** The rules that applied to a refused request, as the log has them, or the one that refused; empty otherwise. */
  readonly rules: string
  /** The number of requests that the row stands for. */
  readonly weight: number
  /** Whether the log only adds up these requests: it has no client of theirs, and no path. */
  readonly isSum: boolean
}

/** The columns in the order of `COLUMNS`. SQLite has no booleans. */
type LogRow = readonly [
  id: number,
  timestampMs: number,
  path: string,
  method: string,
  allowed: boolean | number,
  userId: number | null,
  client: string,
  outcome: LoggedRequest['outcome'],
  key: string,
  rules: string,
  weight: number,
  isSum: boolean | number,
]

const COLUMNS = 'id, at, path, method, allowed, user_id, client, outcome, key, rules, weight, is_sum'

/**
 * Events per statement. On SQLite a page is read and replayed in the server's own thread, in a few milliseconds; with
 * smaller pages PostgreSQL would spend its time on statements rather than on rows.
 */
const PAGE_SIZE = 1_000

/** Reads the log in the order of time, page by page, and yields to the event loop between two pages. */
export async function* eventPages(
  query: Query,
  dialect: Dialect,
  fromMs: number,
  untilMs: number,
): AsyncGenerator<readonly LoggedRequest[]> {
  // PostgreSQL would not use the index on the timestamp alone for a comparison of pairs.
  const sql = `SELECT ${dialect.rowsAsJson(COLUMNS)} AS page FROM (
    SELECT id, ${dialect.toMs('"timestamp"')} AS at, path, method, allowed, user_id, ${CLIENT} AS client, ${OUTCOME} AS outcome,
      CASE WHEN client LIKE '%|%' THEN key ELSE '' END AS key,
      CASE WHEN allowed <> false THEN '' WHEN rules <> '' THEN rules ELSE '-' || rule_name END AS rules, weight, ${IS_SUM} AS is_sum
    FROM ${dialect.table('rate_limit_event')}
    WHERE "timestamp" >= ${dialect.fromMs('$1')} AND ("timestamp" > ${dialect.fromMs('$1')} OR id > $2)
      AND "timestamp" <= ${dialect.fromMs('$3')}
    ORDER BY "timestamp", id LIMIT ${PAGE_SIZE}) AS event`

  async function read(afterMs: number, afterId: number): Promise<LoggedRequest[]> {
    const [answer] = await query<{ page: string | null }>(sql, [afterMs, afterId, untilMs])
    const rows: readonly LogRow[] = JSON.parse(answer?.page ?? '[]')
    return rows.map(toRequest)
  }

  for (let page = await read(fromMs, -1); ; ) {
    const last = page.at(-1)
    if (last === undefined) return
    if (page.length < PAGE_SIZE) return yield page
    // The database server reads the next page while this one is replayed.
    const next = read(last.timestampMs, last.id)
    next.catch(() => undefined)
    yield page
    await yieldToEventLoop()
    page = await next
  }
}

function toRequest([
  id,
  timestampMs,
  path,
  method,
  allowed,
  userId,
  client,
  outcome,
  key,
  rules,
  weight,
  isSum,
]: LogRow): LoggedRequest {
  return {
    id,
    timestampMs,
    path,
    method,
    allowed: Boolean(allowed),
    userId,
    client,
    outcome,
    key,
    rules,
    weight,
    isSum: Boolean(isSum),
  }
}

/** Returns when the oldest event was recorded; null for an empty log. */
export async function oldestEventMs(query: Query, dialect: Dialect): Promise<number | null> {
  const [row] = await query<{ oldest: number | null }>(
    `SELECT MIN("timestamp") AS oldest FROM ${dialect.table('rate_limit_event')}`,
  )
  return row?.oldest ?? null
}
