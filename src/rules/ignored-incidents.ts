/** Incidents that an operator has decided to ignore: the one decision about them that is no rule and no override. */
import type { Database } from '../database/database.js'
import type { Dialect, Query } from '../database/dialect.js'
import { DAY_MS } from '../ground/time/clock.js'
import { currentAuthor } from './history/actor.js'

const TABLE = 'rate_limit_ignored_incident'
/** An incident that lasts so long has long become usual. */
const KEPT_MS = 90 * DAY_MS

/** Notes that the current actor ignores an incident, and forgets the decisions of long ago. */
export async function ignoreIncident(database: Database, id: string, nowMs: number): Promise<void> {
  const { dialect } = database
  const table = dialect.table(TABLE)
  await database.execute(`DELETE FROM ${table} WHERE ignored_at < ${dialect.fromMs('$1')}`, [nowMs - KEPT_MS])
  await database.execute(
    `INSERT INTO ${table} (id, ignored_at, actor) VALUES ($1, ${dialect.fromMs('$2')}, $3) ON CONFLICT (id) DO NOTHING`,
    [id, nowMs, currentAuthor().actor],
  )
}

/** Takes back that an incident is ignored. */
export async function watchIncident(database: Database, id: string): Promise<void> {
  await database.execute(`DELETE FROM ${database.dialect.table(TABLE)} WHERE id = $1`, [id])
}

/** Who ignores an incident, and since when, in milliseconds since the epoch. */
export interface IgnoredIncident {
  readonly id: string
  readonly actor: string
  readonly at: number
}

/** Reads which of some incidents are ignored. */
export function readIgnoredIncidents(
  { query, dialect }: { readonly query: Query; readonly dialect: Dialect },
  ids: readonly string[],
): Promise<IgnoredIncident[]> {
  return query<IgnoredIncident>(
    `SELECT id, actor, ${dialect.toMs('ignored_at')} AS at FROM ${dialect.table(TABLE)}
     WHERE ${dialect.isOneOf('id', '$1', 'text')}`,
    [JSON.stringify(ids)],
  )
}
