/** The table of notices: by it one process of all tells of a notice, and the runs of alerts find what was not told. */
import { createHash } from 'node:crypto'
import type { Database } from '../../database/database.js'
import { DAY_MS } from '../../ground/time/clock.js'
import type { Notice, NoticedLimit } from '../../limiter/notice.js'
import { ALERT_TABLE } from './ledger.js'

export const NOTICE_TABLE = 'rate_limit_notice'
/** The time for which a message is tried again. */
const TRIED_MS = DAY_MS

/** A notice as messages tell of it. */
export interface ToldNotice {
  readonly id: string
  readonly client: string
  readonly limit: NoticedLimit
  readonly share: number
  readonly most: number
  readonly startMs: number
  readonly endMs: number
  readonly atMs: number
}

/** Returns a notice with its identity, which all processes give it. */
export function toToldNotice(notice: Notice, namespace = ''): ToldNotice {
  const { client, limit, share, most, counter, window, startMs, endMs, atMs } = notice
  const identity = JSON.stringify([namespace, counter, window.periodMs, startMs, share])
  const id = createHash('sha256').update(identity).digest('hex')
  return { id, client, limit, share, most, startMs, endMs, atMs }
}

export class NoticeTable {
  readonly #database: Database
  readonly #namespace: string | undefined

  constructor(database: Database, namespace?: string) {
    this.#database = database
    this.#namespace = namespace
  }

  /** Stores notices, and returns those that no process has stored before. */
  async claim(notices: readonly Notice[]): Promise<readonly Notice[]> {
    const { fromMs, jsonField, jsonRows, table } = this.#database.dialect
    const byId = new Map(notices.map((notice) => [toToldNotice(notice, this.#namespace).id, notice]))
    const rows = Array.from(byId, ([id, { client, limit, share, most, startMs, endMs, atMs }]) => {
      const told = JSON.stringify({ limit, share, most, startMs, endMs })
      return [id, client, told, atMs, Math.max(endMs, atMs + TRIED_MS)]
    })
    // All writers insert in one order, so that they never wait for each other in a circle.
    const stored = await this.#database.query<{ id: string }>(
      `INSERT INTO ${table(NOTICE_TABLE)} (id, client, notice, noticed_at, expires_at)
       SELECT ${jsonField(0, 'text')}, ${jsonField(1, 'text')}, ${jsonField(2, 'text')},
         ${fromMs(jsonField(3, 'bigint'))}, ${fromMs(jsonField(4, 'bigint'))}
       FROM ${jsonRows()} WHERE true ORDER BY 1
       ON CONFLICT (id) DO NOTHING RETURNING id`,
      [JSON.stringify(rows)],
    )
    const ids = new Set(stored.map(({ id }) => id))
    return [...byId].flatMap(([id, notice]) => (ids.has(id) ? notice : []))
  }

  /**
   * Returns the oldest notices of the last day that a subscription was not told of, and that no process is telling of.
   *
   * @param watch the subscription in the ledger
   * @param after the last notice of the page before
   */
  async untold(
    watch: string,
    nowMs: number,
    limit: number,
    after: Pick<ToldNotice, 'atMs' | 'id'> = { atMs: 0, id: '' },
  ): Promise<ToldNotice[]> {
    const { fromMs, table } = this.#database.dialect
    const rows = await this.#database.query<{ id: string; client: string; notice: string; atMs: number }>(
      `SELECT id, client, notice, noticed_at AS "atMs" FROM ${table(NOTICE_TABLE)} AS noticed
       WHERE noticed_at > ${fromMs('$2')} AND (noticed_at, id) > (${fromMs('$5')}, $6) AND NOT EXISTS (SELECT 1 FROM ${table(ALERT_TABLE)} AS alert
         WHERE alert.watch = $1 AND alert.key = noticed.id
           AND (alert.notified_at IS NOT NULL OR alert.claimed_until > ${fromMs('$3')}))
       ORDER BY noticed_at, id LIMIT $4`,
      [watch, nowMs - TRIED_MS, nowMs, limit, after.atMs, after.id],
    )
    return rows.map(({ notice, ...row }) => {
      const told: Pick<ToldNotice, 'limit' | 'share' | 'most' | 'startMs' | 'endMs'> = JSON.parse(notice)
      return { ...told, ...row, atMs: Number(row.atMs) }
    })
  }
}

/** Deletes up to `batchSize` notices that meant nothing any more at a moment, and returns their number. */
export function deleteOldNotices(database: Database, cutoffMs: number, batchSize: number): Promise<number> {
  const { fromMs, skipLocked, table } = database.dialect
  const name = table(NOTICE_TABLE)
  return database.execute(
    `DELETE FROM ${name} WHERE id IN (SELECT id FROM ${name} WHERE expires_at < ${fromMs('$1')}
       ORDER BY expires_at LIMIT $2 ${skipLocked})`,
    [cutoffMs, batchSize],
  )
}
