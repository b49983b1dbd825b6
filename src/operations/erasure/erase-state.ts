/** Deletes the counters and the alerts of one client. */

import { restAfter } from '../../database/batches.js'
import type { Database } from '../../database/database.js'
import { keyNodes, RedisConnection } from '../../database/redis.js'
import type { RedisClient } from '../../database/redis-client.js'
import { bumpRevision } from '../../database/revision.js'
import { DAY_MS } from '../../ground/time/clock.js'
import { STATE_TABLE_NAMES } from '../../limiter/stores/sql/state-cleanup.js'
import { incidentIdsOf } from '../../reports/incidents/incident.js'
import { ALERT_TABLE } from '../alerts/ledger.js'
import { type Batches, containsToken, tokenPatterns } from './batches.js'
import type { ErasedClient } from './erased-client.js'

/** The memory of alerts has incidents of the last day, and for a week after it. */
const INCIDENTS_KEPT_MS = 9 * DAY_MS
/** The number of keys that Redis looks through in one step. */
const SCAN_COUNT = 1_000
/** The key of a counter in Redis behind the namespace, with the key of the check. */
const REDIS_KEY = /^[^:]+:\{(.*)\}$/s

export async function eraseCounters(database: Database, erased: ErasedClient, batches: Batches): Promise<number> {
  let deleted = 0
  for (const table of STATE_TABLE_NAMES) {
    deleted += await eraseKeys(database, table, erased, (key) => erased.hasCounter(key), batches)
  }
  // Servers forget what they remember of refused clients.
  if (deleted > 0 && !batches.dryRun) await bumpRevision(database, 'resets')
  return deleted
}

/** Deletes what was told of the client's keys, and of its incidents; those of an address have the id of its network. */
export async function eraseAlerts(
  database: Database,
  erased: ErasedClient,
  nowMs: number,
  batches: Batches,
): Promise<number> {
  const { dialect } = database
  const ids = JSON.stringify(erased.names.flatMap((name) => incidentIdsOf(name, nowMs - INCIDENTS_KEPT_MS, nowMs)))
  const ofIncidents = `FROM ${dialect.table(ALERT_TABLE)} WHERE ${dialect.isOneOf('key', '$1', 'text')}`
  const [found] = await database.query<{ count: number }>(`SELECT COUNT(*) AS count ${ofIncidents}`, [ids])
  if (!batches.dryRun) await database.execute(`DELETE ${ofIncidents}`, [ids])
  const keys = await eraseKeys(database, ALERT_TABLE, erased, (key) => erased.hasKey(key), batches)
  return Number(found?.count ?? 0) + keys
}

/** Deletes the rows whose key is the client's, in the order of their keys. */
async function eraseKeys(
  database: Database,
  name: string,
  erased: ErasedClient,
  isTheirs: (key: string) => boolean,
  { dryRun, batchSize, onProgress, signal }: Batches,
): Promise<number> {
  const { dialect } = database
  const table = dialect.table(name)
  const patterns = tokenPatterns(erased)
  let after = ''
  let deleted = 0
  while (!signal?.aborted) {
    const startedMs = performance.now()
    const rows = await database.query<{ key: string }>(
      `SELECT DISTINCT key FROM ${table} WHERE key > $1 AND ${containsToken('key', patterns, 2)}
       ORDER BY key LIMIT ${batchSize}`,
      [after, ...patterns],
    )
    const theirs = rows.flatMap(({ key }) => (isTheirs(key) ? [[key]] : []))
    if (dryRun) deleted += theirs.length
    else if (theirs.length > 0) {
      const keys = `key IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows()})`
      deleted += await database.execute(`DELETE FROM ${table} WHERE ${keys}`, [JSON.stringify(theirs)])
      onProgress?.(deleted)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < batchSize) break
    after = last.key
    await restAfter(startedMs)
  }
  return deleted
}

/** A client of Redis that can list keys, as those of ioredis can. */
interface ScanningRedis {
  scan(cursor: string, ...options: (string | number)[]): Promise<[next: string, keys: string[]]>
}

/** Deletes the counters in Redis of one namespace. */
export async function eraseRedisCounters(
  redis: string | RedisClient,
  namespace: string | undefined,
  erased: ErasedClient,
  { dryRun, onProgress, signal }: Batches,
): Promise<number> {
  const connection = new RedisConnection(redis)
  try {
    const client = await connection.client()
    const prefix = `fsr:${namespace ?? ''}:`
    const keyPrefix = readKeyPrefix(client)
    // A scan may find a key again.
    const found = new Set<string>()
    for (const node of keyNodes(client).filter(canScan)) {
      for (const token of erased.tokens) {
        const match = `${escapePattern(keyPrefix)}${prefix}*${escapePattern(token)}*`
        for (let cursor = '0', isFirst = true; (isFirst || cursor !== '0') && !signal?.aborted; isFirst = false) {
          const [next, keys] = await connection.explained(() => node.scan(cursor, 'MATCH', match, 'COUNT', SCAN_COUNT))
          cursor = next
          const theirs = keys.flatMap((stored) => {
            const key = stored.slice(keyPrefix.length)
            const [, name] = REDIS_KEY.exec(key.slice(prefix.length)) ?? []
            return name !== undefined && erased.hasCounter(name) ? [key] : []
          })
          // The keys are deleted one by one, since those of a cluster are on different servers; together, since each
          // waits for its answer.
          if (!dryRun) await connection.explained(() => Promise.all(theirs.map((key) => client.del(key))))
          for (const key of theirs) found.add(key)
          onProgress?.(found.size)
        }
      }
    }
    if (!dryRun && found.size > 0) await connection.explained(() => client.incr(`${prefix}resets`))
    return found.size
  } finally {
    await connection.close()
  }
}

/** Returns what a client puts before each key by itself, except in patterns and in what a scan finds. */
function readKeyPrefix(client: RedisClient): string {
  const options: unknown = Reflect.get(client, 'options')
  const keyPrefix: unknown = Object(options).keyPrefix
  return typeof keyPrefix === 'string' ? keyPrefix : ''
}

function escapePattern(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}

function canScan(client: object): client is ScanningRedis {
  return typeof Reflect.get(client, 'scan') === 'function'
}
