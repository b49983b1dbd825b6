import { deleteInBatches, MAX_BATCH_SIZE } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { addPartitions, dropPartition, readPartitions } from '../../database/partitions.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { type Clock, DAY_MS, HOUR_MS, latestStartMs } from '../../ground/time/clock.js'
import { foldForReport } from './catch-up.js'
import { CLIENT_KEYS } from './counting.js'
import { markedHours, recountHour, watermarkSql } from './fold.js'

export interface RetentionOptions {
  /** Deletes events older than this many days: a number >= 0, 30 unless given. */
  readonly olderThanDays?: number
  /** The number of rows that one statement deletes: an integer, 1 to 100000, 1000 unless given. */
  readonly batchSize?: number
  /** Deletes nothing, and returns the number of rows to delete. */
  readonly dryRun?: boolean
  /** Receives the number of rows deleted so far, after every batch. */
  readonly onProgress?: (deleted: number) => void
  /** Stops it after the current batch. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Deletes old events, the oldest first, a batch at a time, so that a live server is not slowed down; then the sums of
 * their hours, and what was decided about incidents of that time. An interruption keeps finished batches. Where the log has
 * a database of its own, events that were logged to the other one before are deleted alike.
 *
 * @returns the number of deleted rows
 * @throws InvalidSettingError for a negative age or a batch size out of its range
 */
export async function cleanupOldEvents(
  database: Database,
  clock: Clock,
  { olderThanDays = 30, batchSize = 1000, ...options }: RetentionOptions = {},
): Promise<number> {
  if (!(olderThanDays >= 0) || !Number.isFinite(olderThanDays)) {
    throw new InvalidSettingError(`olderThanDays is ${olderThanDays}: give a number of days, 0 or more`)
  }
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > MAX_BATCH_SIZE) {
    throw new InvalidSettingError(`batchSize is ${batchSize}: give a whole number of rows, 1 to ${MAX_BATCH_SIZE}`)
  }
  const cutoffMs = clock.now() - Math.round(olderThanDays * DAY_MS)
  let total = 0
  const onProgress = (deleted: number) => options.onProgress?.(total + deleted)
  for (const log of new Set([database.log, database])) {
    total += await cleanupLog(log, clock, cutoffMs, { ...options, batchSize, onProgress })
  }
  // Who ignored an incident tells of a client, and is of use while the log has the incident.
  const { dialect } = database
  if (!options.dryRun && !options.signal?.aborted) {
    await database.execute(
      `DELETE FROM ${dialect.table('rate_limit_change')} WHERE entity = 'incident' AND changed_at < ${dialect.fromMs('$1')}`,
      [cutoffMs],
    )
  }
  return total
}

async function cleanupLog(
  database: Database,
  clock: Clock,
  cutoffMs: number,
  { batchSize = 1000, dryRun, onProgress, signal }: RetentionOptions,
): Promise<number> {
  const { dialect } = database
  const table = dialect.table('rate_limit_event')
  const isOld = `"timestamp" < ${dialect.fromMs('$1')}`
  // Events that a wrong clock has dated far ahead are as old as the next ones in the log.
  const isMisdated = `"timestamp" > ${dialect.fromMs('$2')} AND id < (SELECT id FROM ${table}
    WHERE "timestamp" >= ${dialect.fromMs('$1')} AND "timestamp" <= ${dialect.fromMs('$2')} ORDER BY "timestamp", id LIMIT 1)`
  const latestMs = latestStartMs(clock.now())
  if (dryRun) {
    const sql = `SELECT COUNT(*) AS found FROM ${table} WHERE ${isOld} OR ${isMisdated}`
    // The count is a report, since it takes long for a long log.
    const [counted] = await database.report((query) => query<{ found: number }>(sql, [cutoffMs, latestMs]))
    return counted?.found ?? 0
  }
  // The condition deletes only folded events: the trend, which outlives them, would lack the others for ever.
  const deletionSql = (condition: string, limit: string) => `DELETE FROM ${table} WHERE id IN (
    SELECT id FROM ${table} WHERE ${condition} AND id <= ${watermarkSql(database)} ORDER BY "timestamp", id LIMIT ${limit} ${dialect.skipLocked})`
  await foldForReport(database, clock.now(), 1)
  await addPartitions(database)
  const dropped = await dropOldPartitions(database, cutoffMs, signal)
  const deleteOld = () => database.execute(deletionSql(isOld, '$2'), [cutoffMs, batchSize])
  const deleteMisdated = () => database.execute(deletionSql(isMisdated, '$3'), [cutoffMs, latestMs, batchSize])
  const further = (rows: number) => onProgress?.(dropped + rows)
  let deleted = dropped + (await deleteInBatches(batchSize, deleteOld, { onProgress: further, signal }))
  const before = deleted
  if (!signal?.aborted) {
    const progress = (misdated: number) => onProgress?.(before + misdated)
    deleted += await deleteInBatches(batchSize, deleteMisdated, { onProgress: progress, signal })
  }
  if (!signal?.aborted) {
    const isForgotten = `day < ${dialect.whole('$1')}`
    await database.execute(`DELETE FROM ${dialect.table(CLIENT_KEYS)} WHERE ${isForgotten}`, [
      Math.floor(cutoffMs / DAY_MS),
    ])
  }
  for (const hour of await markedHours(database)) {
    if ((hour + 1) * HOUR_MS <= cutoffMs && !signal?.aborted) await recountHour(database, hour, clock.now())
  }
  return deleted
}

/** Drops the partitions of a log that only have old events, all of them folded. Returns the number of events. */
async function dropOldPartitions(database: Database, cutoffMs: number, signal?: AbortSignal): Promise<number> {
  const partitions = await readPartitions(database)
  if (partitions.length === 0) return 0
  // A statement may have given an event an id far ahead: the ranges before it are for ids to come.
  const [state] = await database.query<{ settled: number }>(
    `SELECT LEAST(${watermarkSql(database)}, last_value) AS settled FROM ${database.dialect.table('rate_limit_event_id_seq')}`,
  )
  let dropped = 0
  for (const partition of partitions) {
    // An id beyond the range has been settled: no further event gets one of the range.
    if (partition.to > (state?.settled ?? 0) || signal?.aborted) continue
    dropped += await dropPartition(database, partition, cutoffMs)
  }
  return dropped
}
