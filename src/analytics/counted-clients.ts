import { checkDays, type Report, windowOf } from './window.js'

/** Whom an event was counted for. */
export interface CountedClient {
  readonly key: string
  /** The address that was counted; null where something else was. */
  readonly clientIp: string | null
  /** The user who asked, where that is a number. */
  readonly userId: number | null
}

/** So many events of a key are looked at. */
const LATEST = 20

/**
 * Whom the latest refused events of some keys were counted for; of a key that was never refused, the latest events. For
 * a key alone does not tell: a header can spell somebody else's.
 */
export function countedClients(keys: readonly string[], days: number): Report<readonly (readonly CountedClient[])[]> {
  checkDays(days)
  return async ({ query, dialect, nowMs }) => {
    const latest = (key: string, condition: string) =>
      query<CountedClient>(
        `SELECT key, client_ip AS "clientIp", user_id AS "userId" FROM ${dialect.table('rate_limit_event')}
         WHERE "timestamp" >= ${dialect.fromMs('$1')} AND key = $2 AND outcome <> 'denied'${condition}
         ORDER BY "timestamp" DESC, id DESC LIMIT $3`,
        [windowOf(days, nowMs).startMs, key, LATEST],
      )
    const found: CountedClient[][] = []
    for (const key of keys) {
      // Not by an equation, for which SQLite would take the index of the decision.
      const refused = await latest(key, ' AND NOT allowed')
      found.push(refused.length > 0 ? refused : await latest(key, ''))
    }
    return found
  }
}
