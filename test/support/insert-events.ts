import type { Database } from '../../src/database/database.js'
import { eventValues, insertEventsSql, valuesOfAlike } from '../../src/log/event.js'

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

/** Inserts events as the event log writes them. */
export async function insertEvents(database: Database, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(({ atMs, key, rule, path, method, outcome, rules = '', weight = 1 }) => {
    const event = {
      timestampMs: atMs,
      key,
      ruleName: rule,
      path,
      method,
      allowed: outcome === 'allowed' || outcome === 'would_block',
      count: outcome === 'allowed' ? 1 : 2,
      limit: 1,
      ipAddress: null,
      userId: null,
      clientIp: null,
      client: `key:${key}`,
      policy: rule || 'default',
      outcome: outcome === 'blocked' || outcome === 'would_block' ? OUTCOMES[outcome] : outcome,
      rules,
    }
    return valuesOfAlike(eventValues(event), { ...event, weight })
  })
  await database.log.execute(insertEventsSql(database.log.dialect), [JSON.stringify(rows)])
}
