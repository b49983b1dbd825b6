import { clientText } from '../../clients/override-client.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { enforcedColumns } from '../../rules/description.js'
import { OVERRIDES, type Override, type OverrideRow, parseOverride } from '../../rules/overrides/override.js'
import type { EntryTables } from '../report.js'

/** The time for which processes may still have obeyed the previous state after a change. */
const SPREAD_MS = 2_000

/**
 * Counts the overrides that let a client through for a part of the time, and no longer do. The requests that they let
 * through are not in the log, though a rule would decide them today. An override that is followed by one in force for
 * the same client and path is not counted: that one decides their requests, whatever its effect.
 *
 * @param inForce the overrides in force now
 */
export async function countEndedPasses(
  { query, dialect }: EntryTables,
  inForce: () => Iterable<Override>,
  fromMs: number,
  nowMs: number,
): Promise<number> {
  const ended = new Set<string>()
  const expired = await query<OverrideRow>(
    `SELECT ${enforcedColumns(OVERRIDES.fields)} FROM ${dialect.table(OVERRIDES.table)}
     WHERE effect = 'allow' AND expires_at > ${dialect.fromMs('$1')} AND expires_at <= ${dialect.fromMs('$2')}`,
    [fromMs, nowMs],
  )
  for (const row of expired) add(row)
  const changed = await query<{ before: string }>(
    `SELECT before FROM ${dialect.table('rate_limit_change')} WHERE entity = 'override' AND before IS NOT NULL
       AND changed_at >= ${dialect.fromMs('$1')} AND changed_at <= ${dialect.fromMs('$2')}`,
    [fromMs - SPREAD_MS, nowMs],
  )
  for (const { before } of changed) {
    const row: OverrideRow = JSON.parse(before)
    if (row.effect === 'allow' && (row.expiresAt === null || row.expiresAt > fromMs)) add(row)
  }

  function add(row: OverrideRow): void {
    const override = parseIfValid(row)
    if (override !== undefined) ended.add(passIdentity(override))
  }

  const slices = new CooperativeYield()
  if (ended.size > 0) {
    for (const override of inForce()) {
      ended.delete(passIdentity(override))
      if (slices.over()) await slices.pause()
    }
  }
  return ended.size
}

/** Parses a row; returns undefined for one that raw SQL made invalid, which no server obeyed. */
function parseIfValid(row: OverrideRow): Override | undefined {
  try {
    return parseOverride(row)
  } catch {
    return undefined
  }
}

function passIdentity({ client, pathPattern }: Override): string {
  return `${clientText(client)} ${pathPattern}`
}
