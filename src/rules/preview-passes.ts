import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Dialect, Query } from '../db/dialect.js'
import { clientText, type Override, type OverrideRow, parseOverride } from './override.js'

/** For so long after a change, processes may still have obeyed what was before. */
const SPREAD_MS = 2_000
/** So few that SQLite, which may read in the server's own thread, holds nobody up. */
const IDS_AT_ONCE = 2_000

/**
 * Counts the overrides that let a client through for a part of the time, and do not any more. What they let through is
 * not in the log, though a rule would decide it today. Where the same client and path have an override in force now
 * this does no harm: that one decides their requests, whatever its effect.
 *
 * @param inForce the overrides in force now
 */
export async function countEndedPasses(
  query: Query,
  dialect: Dialect,
  inForce: () => Iterable<Override>,
  fromMs: number,
  nowMs: number,
): Promise<number> {
  const ended = new Set<string>()
  const expired = await query<OverrideRow>(
    `SELECT client, effect, algorithm, path_pattern AS "pathPattern", expires_at AS "expiresAt"
     FROM ${dialect.table('rate_limit_override')}
     WHERE effect = 'allow' AND expires_at > ${dialect.fromMs('$1')} AND expires_at <= ${dialect.fromMs('$2')}`,
    [fromMs, nowMs],
  )
  for (const row of expired) add(row)
  for await (const row of changedOverrides(query, dialect, fromMs, nowMs)) {
    if (row.effect === 'allow' && (row.expiresAt === null || row.expiresAt > fromMs)) add(row)
  }

  function add(row: OverrideRow): void {
    const override = understood(row)
    if (override !== undefined) ended.add(identityOf(override))
  }

  if (ended.size > 0) for (const override of inForce()) ended.delete(identityOf(override))
  return ended.size
}

/** What overrides were before they were changed, among other work. */
async function* changedOverrides(query: Query, dialect: Dialect, fromMs: number, untilMs: number) {
  const table = dialect.table('rate_limit_change')
  const [ids] = await query<{ first: number | null; last: number | null }>(
    `SELECT MIN(id) AS first, MAX(id) AS last FROM ${table}`,
  )
  // Nothing is indexed by the time: all of the history is passed over, in steps that are as long whatever they find.
  // With "= TRUE" SQLite does not take the index on the entity, and read half of the table for every step.
  for (let id = ids?.first ?? 1; id <= (ids?.last ?? 0); id += IDS_AT_ONCE) {
    const found = await query<{ before: string }>(
      `SELECT before FROM ${table} WHERE id >= ${dialect.whole('$1')} AND id < ${dialect.whole('$1')} + ${IDS_AT_ONCE}
         AND (entity = 'override') = TRUE AND before IS NOT NULL
         AND changed_at >= ${dialect.fromMs('$2')} AND changed_at <= ${dialect.fromMs('$3')}`,
      [id, fromMs - SPREAD_MS, untilMs],
    )
    for (const { before } of found) {
      const row: OverrideRow = JSON.parse(before)
      yield row
    }
    await yieldToEventLoop()
  }
}

/** Undefined for a row that raw SQL made wrong: no server obeyed it. */
function understood(row: OverrideRow): Override | undefined {
  try {
    return parseOverride(row)
  } catch {
    return undefined
  }
}

function identityOf({ client, pathPattern }: Override): string {
  return `${clientText(client)} ${pathPattern}`
}
