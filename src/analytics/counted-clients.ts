import { type Report, validateDays, windowFor } from './window.js'

/** The client that an event was counted for. */
export interface CountedClient {
  readonly key: string
  /** The address that was counted; null where the client was not counted by address. */
  readonly clientIp: string | null
  /** The id of the request's user, where it is a number. */
  readonly userId: number | null
}

/** The number of events that are read per key. */
const LATEST = 20

/**
 * Reports the clients that the latest refused events of some keys were counted for; for a key that was never refused,
 * its latest events. The key alone does not identify a client: a header can spell another client's key.
 */
export function countedClients(keys: readonly string[], days: number): Report<readonly (readonly CountedClient[])[]> {
  validateDays(days)
  return async ({ query, dialect, nowMs }) => {
    const latest = (key: string, condition: string) =>
      query<CountedClient>(
        `SELECT key, client_ip AS "clientIp", user_id AS "userId" FROM ${dialect.table('rate_limit_event')}
         WHERE "timestamp" >= ${dialect.fromMs('$1')} AND key = $2 AND outcome <> 'denied'${condition}
         ORDER BY "timestamp" DESC, id DESC LIMIT $3`,
        [windowFor(days, nowMs).startMs, key, LATEST],
      )
    const found: CountedClient[][] = []
    for (const key of keys) {
      // Not "allowed = false", for which SQLite would use the index on the decision.
      const refused = await latest(key, ' AND NOT allowed')
      found.push(refused.length > 0 ? refused : await latest(key, ''))
    }
    return found
  }
}
