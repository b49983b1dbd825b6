/**
 * Keeps the requests of the busiest clients: an hour that is over loses the rows of all clients but these and those that
 * were refused something. Until then it has those of every client, since one that is quiet now may be busy soon.
 */
import type { Database } from '../../database/database.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { CLIENTS, DAY_SPAN, HOUR_SPAN, REQUESTS, type Span } from './counting.js'
import { countDayPart, toStatements } from './fold.js'

/** The number of clients that a bucket keeps, beside those that were refused something. */
export const BUSIEST_CLIENTS = 500

const DAY_HOURS = DAY_SPAN / HOUR_SPAN

/** Runs a step, which is one transaction. */
export type RunStep = <T>(step: () => Promise<T>) => Promise<T>

const atOnce: RunStep = (step) => step()

interface Progress {
  /** The hours before it are trimmed, and their days are counted. */
  readonly until: number
  /** Changes with every event that is folded into these hours, or into the next one. */
  readonly late: number
  /** The end of the hours that are over and folded. */
  readonly closed: number
  /** The next hour with rows; null without one. */
  readonly hour: number | null
}

/**
 * Trims the next hour that is over, and counts its day where that is over too.
 *
 * @param step runs each of the steps
 * @returns whether there may be another one
 */
export async function trimNextHour(database: Database, nowMs: number, step: RunStep = atOnce): Promise<boolean> {
  const progress = await step(() => readProgress(database, nowMs))
  if (progress === undefined || progress.until >= progress.closed) return false
  const { until, hour, closed } = progress
  // Hours without rows are skipped first, so that `late` tells of every event that comes to lie before the end.
  if (hour !== until) return (await advance(database, progress, hour ?? closed, step)) && hour !== null
  await trimBucket(database, HOUR_SPAN, hour, step)
  return advance(database, progress, hour + 1, step)
}

/**
 * Trims the minutes that are over, from one on.
 *
 * @returns the minute to begin with the next time
 */
export async function trimMinutes(
  database: Database,
  from: number,
  nowMs: number,
  step: RunStep = atOnce,
): Promise<number> {
  const closed = await step(() => readClosed(database, nowMs))
  const minutes = await step(() =>
    database.query<{ bucket: number }>(
      `SELECT DISTINCT bucket FROM ${database.dialect.table(REQUESTS.table)} WHERE span = 1 AND bucket >= $1 AND bucket < $2`,
      [from, closed],
    ),
  )
  for (const { bucket } of minutes) await trimBucket(database, 1, bucket, step)
  return Math.max(from, closed)
}

async function readProgress(database: Database, nowMs: number): Promise<Progress | undefined> {
  const { dialect, query } = database
  const closed = Math.floor((await readClosed(database, nowMs)) / HOUR_SPAN)
  const [row] = await query<Omit<Progress, 'closed'>>(
    `SELECT busiest_until AS until, late, (SELECT MIN(bucket) FROM ${dialect.table(REQUESTS.table)}
       WHERE span = ${HOUR_SPAN} AND bucket >= busiest_until) AS hour
     FROM ${dialect.table('rate_limit_watermark')}`,
  )
  if (row === undefined) return undefined
  return { ...row, closed, hour: row.hour !== null && row.hour < closed ? row.hour : null }
}

/**
 * Returns the minute before which all is over and folded. Events come a moment late; a long log is folded hour by hour;
 * and an hour that is counted again is not complete.
 */
async function readClosed({ dialect, query }: Database, nowMs: number): Promise<number> {
  const table = dialect.table('rate_limit_event')
  // The event at the watermark may have been deleted. The last id, not "EXISTS", for which PostgreSQL reads the whole log
  // where there is no later event.
  const [row] = await query<{ marked: number | null; folded: number | null }>(
    `SELECT (SELECT MIN(hour) FROM ${dialect.table('rate_limit_rollup_mark')}) AS marked,
       (SELECT ${dialect.toMinute('"timestamp"')} FROM ${table}
        WHERE id = (SELECT MAX(earlier.id) FROM ${table} AS earlier WHERE earlier.id <= event_id)
          AND event_id < (SELECT MAX(later.id) FROM ${table} AS later)) AS folded
     FROM ${dialect.table('rate_limit_watermark')}`,
  )
  const marked = row?.marked ?? Number.POSITIVE_INFINITY
  return Math.min(Math.floor(nowMs / MINUTE_MS) - 1, marked * HOUR_SPAN, row?.folded ?? Number.POSITIVE_INFINITY)
}

/** Counts the days that end before an hour, and notes that all is done up to it; not where an event came meanwhile. */
async function advance(database: Database, { until, late }: Progress, to: number, step: RunStep): Promise<boolean> {
  const watermark = database.dialect.table('rate_limit_watermark')
  const isUnchanged = {
    sql: `UPDATE ${watermark} SET late = late WHERE busiest_until = $1 AND late = $2`,
    parameters: [until, late],
    mustChange: true,
  }
  // The hours between have no rows. Other days have only what was counted before their hours were deleted.
  const first = Math.floor(until / DAY_HOURS)
  const counted = await step(() =>
    database.query<{ day: number }>(
      `SELECT DISTINCT bucket AS day FROM ${database.dialect.table(REQUESTS.table)}
       WHERE span = ${DAY_SPAN} AND bucket > $1 AND bucket < $2`,
      [first, Math.floor(to / DAY_HOURS)],
    ),
  )
  for (const { day } of [{ day: first }, ...counted]) {
    if ((day + 1) * DAY_HOURS > to) continue
    let from: string | null = ''
    const next = async () => {
      from = await countDayPart(database, REQUESTS, day, from ?? '', isUnchanged)
    }
    while (from !== null) await step(next)
  }
  const changed = await step(() =>
    database.execute(`UPDATE ${watermark} SET busiest_until = $3 WHERE busiest_until = $1 AND late = $2`, [
      until,
      late,
      to,
    ]),
  )
  return changed > 0
}

/** Deletes the rows of a bucket that it does not keep, some hundred in each step. */
async function trimBucket(database: Database, span: Span, bucket: number, step: RunStep): Promise<void> {
  const { dialect, query } = database
  const table = dialect.table(REQUESTS.table)
  // The snapshot reads all rows of the bucket, for which no request may wait.
  const busiest = await database.snapshot((read) =>
    read<{ client: string }>(
      `SELECT client FROM ${table} WHERE span = $1 AND bucket = $2
       GROUP BY client ORDER BY SUM(requests) DESC, client LIMIT ${BUSIEST_CLIENTS + 1}`,
      [span, bucket],
    ),
  )
  if (busiest.length <= BUSIEST_CLIENTS) return
  const kept = JSON.stringify(busiest.slice(0, BUSIEST_CLIENTS).map(({ client }) => [client]))
  let from: string | null = ''
  const trimPart = async () => {
    const [end]: { client: string }[] = await query(
      `SELECT client FROM ${table} WHERE span = $1 AND bucket = $2 AND client > $3
       ORDER BY client LIMIT 1 OFFSET ${dialect.eventsPerFold}`,
      [span, bucket, from],
    )
    await database.transaction([
      ...toStatements(dialect.lockRollups),
      // A "NOT EXISTS" would have PostgreSQL compare each client with each until the tables are analyzed.
      {
        sql: `DELETE FROM ${table} AS trimmed WHERE span = $1 AND bucket = $2 AND client >= $3${end === undefined ? '' : ' AND client < $5'}
          AND client NOT IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows('$4')})
          AND (SELECT 1 FROM ${dialect.table(CLIENTS.table)} AS refused
            WHERE refused.span = $1 AND refused.bucket = $2 AND refused.client = trimmed.client LIMIT 1) IS NULL`,
        parameters: [span, bucket, from, kept, ...(end === undefined ? [] : [end.client])],
      },
    ])
    from = end?.client ?? null
  }
  while (from !== null) await step(trimPart)
}
