/** The keys under which the log has events of a client, and which do not tell it. */
import { Parameters } from '../database/list.js'
import { DAY_MS } from '../ground/time/clock.js'
import { HAS_OTHER_KEY } from '../log/event-sql.js'
import { CLIENT_KEYS } from '../log/rollups/counting.js'
import type { LogSnapshot } from './report.js'
import { type ReportWindow, windowFor } from './report-window.js'

/** The keys of a client. */
export type OtherKeys = ReadonlyMap<string, readonly string[]>

/** Reads the keys that some clients have in a window: of rules that count by another kind than the group without a name. */
export function readOtherKeys(
  snapshot: LogSnapshot,
  clients: readonly string[],
  window: ReportWindow,
): Promise<OtherKeys> {
  const { dialect, nowMs } = snapshot
  return readKeysOf(snapshot, windowFor(window, nowMs).startMs, (parameters) =>
    dialect.isOneOf('client', parameters.add(JSON.stringify(clients)), 'text'),
  )
}

/** @param condition of the column `client` */
export async function readKeysOf(
  { query, dialect, sums }: LogSnapshot,
  startMs: number,
  condition: (parameters: Parameters) => string,
): Promise<OtherKeys> {
  const parameters = new Parameters()
  const day = parameters.add(Math.floor(startMs / DAY_MS))
  const rows = await query<{ client: string; key: string }>(
    `SELECT client, key FROM ${dialect.table(CLIENT_KEYS)} WHERE day >= ${day} AND ${condition(parameters)}
     UNION SELECT client, key FROM ${dialect.table('rate_limit_event')}
     WHERE id > ${parameters.add(sums.watermark)} AND ${HAS_OTHER_KEY} AND ${condition(parameters)}`,
    parameters.values,
  )
  const keys = new Map<string, string[]>()
  for (const { client, key } of rows) {
    const found = keys.get(client)
    if (found === undefined) keys.set(client, [key])
    else found.push(key)
  }
  return keys
}
