import { type Database, databaseFor } from '../../src/database/database.js'
import type { BatchRows, BatchTable } from '../../src/log/batch-table.js'
import { eventValues, insertEventsSql, type RateLimitEvent, valuesOfAlike } from '../../src/log/event.js'
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

/** An event, or `weight` of them that are alike. */
export type LoggedRow = Partial<RateLimitEvent> & { readonly weight?: number }

/** Puts events into the log, each as `EVENT` but for what is given. */
export async function logRows(database: Database, events: readonly LoggedRow[]): Promise<void> {
  const rows = events.map(({ weight = 1, ...event }) => {
    const complete = { ...EVENT, ...event }
    return valuesOfAlike(eventValues(complete), { ...complete, weight })
  })
  for (let from = 0; from < rows.length; from += 5_000) {
    const batch = JSON.stringify(rows.slice(from, from + 5_000))
    await database.log.execute(insertEventsSql(database.log.dialect), [batch])
  }
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
  const rows = Array.from(
    { length: allowed + blocked + denied },
    (_, place): LoggedRow => ({
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
  await logRows(databaseFor(client), rows)
}

export interface NewEvent {
  readonly atMs: number
  readonly key: string
  readonly rule: string
  readonly path: string
  readonly method: string
  readonly outcome: 'allowed' | 'blocked' | 'would_block' | 'denied' | 'unavailable'
  readonly rules?: string
  /** 1 unless given. */
  readonly weight?: number
}

const OUTCOMES = { blocked: 'over_limit', would_block: 'over_limit' } as const

/** Puts events of generated histories into the log. */
export async function insertEvents(database: Database, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(
    ({ atMs, key, rule, path, method, outcome, rules = '', weight = 1 }): LoggedRow => ({
      timestampMs: atMs,
      key,
      ruleName: rule,
      path,
      method,
      allowed: outcome === 'allowed' || outcome === 'would_block',
      count: outcome === 'allowed' ? 1 : 2,
      limit: 1,
      client: `key:${key}`,
      policy: rule || 'default',
      outcome: outcome === 'blocked' || outcome === 'would_block' ? OUTCOMES[outcome] : outcome,
      rules,
      weight,
    }),
  )
  await logRows(database, rows)
}
