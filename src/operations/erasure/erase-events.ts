/** Deletes the events of one client, and counts the sums of their hours again. */

import { isComposite, parseComposite } from '../../clients/client.js'
import { restAfter } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { MAX_KEY_LENGTH } from '../../ground/storable.js'
import { HOUR_MS, MINUTE_MS } from '../../ground/time/clock.js'
import { CLIENT, HAS_OTHER_KEY } from '../../log/event-sql.js'
import { foldAll, foldForReport } from '../../log/rollups/catch-up.js'
import { CLIENT_KEYS, ROLLUPS } from '../../log/rollups/counting.js'
import { watermarkSql } from '../../log/rollups/fold.js'
import { type Batches, containsToken, tokenPatterns } from './batches.js'
import type { ErasedClient } from './erased-client.js'

/** The number of ids that one statement looks through. */
const SLICE = 20_000
/** Traffic goes on meanwhile: what comes later than the last pass is left to the next run. */
const MAX_PASSES = 5

export interface ErasedEvents {
  /** Events of the client. */
  readonly deleted: number
  /** Events of other clients that named it, as the user or the peer: that was removed. */
  readonly emptied: number
  /** Events that are not counted yet, and stay until the next run. */
  readonly left: number
}

interface EventRow {
  readonly id: number
  /** Whether the key is of another client: a rule of a group counts by another kind than the rest. */
  readonly hasOtherKey: boolean | number
  readonly client: string
  readonly key: string
  readonly ipAddress: string | null
  readonly userId: number | null
}

export async function eraseEvents(
  database: Database,
  erased: ErasedClient,
  now: () => number,
  batches: Batches,
): Promise<ErasedEvents> {
  let deleted = 0
  let emptied = 0
  let after = Number.MIN_SAFE_INTEGER
  for (let pass = 0; pass < MAX_PASSES && !batches.signal?.aborted; pass++) {
    // The deletion takes folded events alone: the trend, which outlives them, would lack the others for ever.
    if (!batches.dryRun) await foldForReport(database, now(), 1)
    const { last, watermark } = await readEnds(database)
    const until = batches.dryRun ? last : Math.min(last, watermark)
    if (until <= after) break
    for await (const rows of findEvents(database, erased, after, until, batches)) {
      const theirs = rows.filter((row) => isTheirs(erased, row))
      const named = rows.filter((row) => !isTheirs(erased, row) && isNamed(erased, row))
      deleted += batches.dryRun ? theirs.length : await deleteRows(database, theirs, batches)
      emptied += batches.dryRun ? named.length : await emptyRows(database, erased, named, batches)
      batches.onProgress?.(deleted + emptied)
    }
    after = until
  }
  if (batches.dryRun) return { deleted, emptied, left: 0 }
  const { last } = await readEnds(database)
  let left = 0
  for await (const rows of findEvents(database, erased, after, last, batches)) {
    left += rows.filter((row) => isTheirs(erased, row) || isNamed(erased, row)).length
  }
  return { deleted, emptied, left }
}

/** Counts the hours again that have sums of the client. The triggers marked those whose events were deleted. */
export async function eraseSums(
  database: Database,
  erased: ErasedClient,
  nowMs: number,
  { dryRun, signal }: Batches,
): Promise<number> {
  const { dialect } = database
  const marks = dialect.table('rate_limit_rollup_mark')
  const patterns = tokenPatterns(erased)
  const named = ROLLUPS.flatMap(({ table, keys }) => {
    const column = keys.find((key) => key === 'client' || key === 'key')
    if (column === undefined) return []
    return `SELECT bucket * span / ${HOUR_MS / MINUTE_MS} AS hour, ${column} AS name FROM ${dialect.table(table)} WHERE ${containsToken(column, patterns)}`
  })
  const found = await database.report((query) =>
    query<{ hour: number; name: string }>(`SELECT DISTINCT hour, name FROM (${named.join(' UNION ALL ')}) AS sums`, [
      ...patterns,
    ]),
  )
  const hours = new Set(
    found.filter(({ name }) => erased.has(name, true) || erased.hasKey(name)).map(({ hour }) => hour),
  )
  if (dryRun) return hours.size
  const hour = dialect.jsonField(0, 'bigint')
  await database.execute(
    `INSERT INTO ${marks} (hour, since) SELECT ${hour}, ${hour} * ${HOUR_MS} FROM ${dialect.jsonRows()}
     WHERE NOT EXISTS (SELECT 1 FROM ${marks} AS mark WHERE mark.hour = ${hour} AND mark.since = ${hour} * ${HOUR_MS})`,
    [JSON.stringify([...hours].map((each) => [each]))],
  )
  await foldAll(database, nowMs, { signal })
  await eraseClientKeys(database, erased)
  return hours.size
}

async function eraseClientKeys(database: Database, erased: ErasedClient): Promise<void> {
  const { dialect, query } = database
  const table = dialect.table(CLIENT_KEYS)
  const patterns = tokenPatterns(erased)
  const rows = await query<{ client: string; key: string }>(
    `SELECT DISTINCT client, key FROM ${table} WHERE ${containsToken('client', patterns)} OR ${containsToken('key', patterns)}`,
    patterns,
  )
  const theirs = rows.filter(({ client, key }) => erased.has(client, true) || erased.hasKey(key))
  const [client, key] = [dialect.jsonField(0, 'text'), dialect.jsonField(1, 'text')]
  await database.execute(
    `DELETE FROM ${table} WHERE (client, key) IN (SELECT ${client}, ${key} FROM ${dialect.jsonRows()})`,
    [JSON.stringify(theirs.map((row) => [row.client, row.key]))],
  )
}

/** Counts the events that have only the network of the client. */
export async function countShared(database: Database, client: string): Promise<number> {
  const [counted] = await database.report((query) =>
    query<{ found: number }>(
      `SELECT COUNT(*) AS found FROM ${database.dialect.table('rate_limit_event')} WHERE client = $1`,
      [client],
    ),
  )
  return Number(counted?.found ?? 0)
}

function isTheirs(erased: ErasedClient, { client, key, hasOtherKey }: EventRow): boolean {
  if (hasOtherKey && erased.hasKey(key)) return true
  // A cut client may have lost the kind of its last part.
  const isWhole = client.length < MAX_KEY_LENGTH
  return erased.has(client, isComposite({ client, key }) && !(isWhole && parseComposite(client) === undefined))
}

function isNamed(erased: ErasedClient, { ipAddress, userId }: EventRow): boolean {
  return erased.hasAddress(ipAddress) || (userId !== null && Number(userId) === erased.userId)
}

async function readEnds(database: Database): Promise<{ readonly last: number; readonly watermark: number }> {
  const [ends] = await database.query<{ last: number | null; watermark: number | null }>(
    `SELECT MAX(id) AS last, ${watermarkSql(database)} AS watermark FROM ${database.dialect.table('rate_limit_event')}`,
  )
  return { last: Number(ends?.last ?? 0), watermark: Number(ends?.watermark ?? 0) }
}

/** Yields the events that may be the client's, slice by slice. */
async function* findEvents(
  { dialect, query }: Database,
  erased: ErasedClient,
  after: number,
  until: number,
  { signal }: Batches,
): AsyncGenerator<readonly EventRow[]> {
  const table = dialect.table('rate_limit_event')
  const patterns = tokenPatterns(erased)
  const found = ['client', 'key', 'ip_address'].map((column) => containsToken(column, patterns, 3))
  const user = erased.userId === undefined ? '' : ` OR user_id = ${erased.userId}`
  const [first] = await query<{ id: number | null }>(`SELECT MIN(id) AS id FROM ${table} WHERE id > $1`, [after])
  for (let from = Number(first?.id ?? until + 1) - 1; from < until && !signal?.aborted; from += SLICE) {
    const startedMs = performance.now()
    yield await query<EventRow>(
      `SELECT id, CASE WHEN ${HAS_OTHER_KEY} THEN 1 ELSE 0 END AS "hasOtherKey", (${CLIENT}) AS client, key, ip_address AS "ipAddress", user_id AS "userId" FROM ${table}
       WHERE id > $1 AND id <= $2 AND (${found.join(' OR ')}${user})`,
      [from, Math.min(until, from + SLICE), ...patterns],
    )
    await restAfter(startedMs)
  }
}

function deleteRows(database: Database, rows: readonly EventRow[], batches: Batches): Promise<number> {
  return runOnIds(database, rows, batches, (table, ids) => `DELETE FROM ${table} WHERE ${ids}`)
}

async function emptyRows(
  database: Database,
  erased: ErasedClient,
  rows: readonly EventRow[],
  batches: Batches,
): Promise<number> {
  const peers = rows.filter(({ ipAddress }) => erased.hasAddress(ipAddress))
  const users = rows.filter(({ ipAddress }) => !erased.hasAddress(ipAddress))
  const empty = (column: string) => (table: string, ids: string) => `UPDATE ${table} SET ${column} = NULL WHERE ${ids}`
  const emptied = await runOnIds(database, peers, batches, empty('ip_address'))
  return emptied + (await runOnIds(database, users, batches, empty('user_id')))
}

async function runOnIds(
  database: Database,
  rows: readonly EventRow[],
  { batchSize, signal }: Batches,
  sql: (table: string, ids: string) => string,
): Promise<number> {
  const { dialect } = database
  const ids = `id IN (SELECT ${dialect.jsonField(0, 'bigint')} FROM ${dialect.jsonRows()})`
  let changed = 0
  for (let begin = 0; begin < rows.length && !signal?.aborted; begin += batchSize) {
    const startedMs = performance.now()
    const batch = rows.slice(begin, begin + batchSize).map(({ id }) => [Number(id)])
    changed += await database.execute(sql(dialect.table('rate_limit_event'), ids), [JSON.stringify(batch)])
    await restAfter(startedMs)
  }
  return changed
}
