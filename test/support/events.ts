import { databaseFor } from '../../src/database/database.js'
import type { BatchRows, BatchTable } from '../../src/log/batch-table.js'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import type { RateLimitClient } from '../../src/plugin/client/client.js'

/** A request that was let through, by no rule. */
export const EVENT: RateLimitEvent = {
  timestampMs: 0,
  key: 'ip:203.0.113.7',
  ruleName: '',
  path: '/',
  method: 'GET',
  allowed: true,
  count: 1,
  limit: 5,
  ipAddress: null,
  userId: null,
  clientIp: null,
  client: 'ip:203.0.113.7',
  policy: 'default',
  outcome: 'allowed',
  rules: '',
}

/** A table that takes whatever `write` takes. */
export function tableOf(write: (batch: BatchRows) => Promise<unknown>): BatchTable {
  return {
    write: async (batch) => {
      await write(batch)
      return batch.rows.length
    },
    refusesRows: () => false,
  }
}

export interface LoggedEvents {
  readonly key: string
  /** The client; that of the key unless given. */
  readonly client?: string
  readonly allowed?: number
  readonly blocked?: number
  /** Refused by the deny list, an override or a ban. */
  readonly denied?: number
  readonly path?: string
  readonly method?: string
  readonly ruleName?: string
  readonly atMs: number
}

/** Puts events into the log as if they had been served, all at the same moment: the allowed ones first, the denied last. */
export async function logEvents(
  client: RateLimitClient,
  {
    key,
    client: counted = '',
    allowed = 0,
    blocked = 0,
    denied = 0,
    path = '/',
    method = 'GET',
    ruleName = '',
    atMs,
  }: LoggedEvents,
): Promise<void> {
  const rows = Array.from({ length: allowed + blocked + denied }, (_, place) =>
    eventValues({
      ...EVENT,
      timestampMs: atMs,
      key,
      ruleName,
      path,
      method,
      allowed: place < allowed,
      count: place + 1,
      limit: allowed,
      clientIp: key.startsWith('ip:') ? key.slice('ip:'.length) : null,
      client: counted,
      policy: ruleName,
      outcome: place < allowed ? 'allowed' : place < allowed + blocked ? 'over_limit' : 'denied',
    }),
  )
  const database = databaseFor(client).log
  await database.execute(insertEventsSql(database.dialect), [JSON.stringify(rows)])
}
