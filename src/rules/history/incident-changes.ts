/** The changes that are no row of a table: an operator ignores an incident, or watches it again. The history is their memory. */
import type { Database } from '../../database/database.js'
import { type Dialect, runStatement, type SqlWork } from '../../database/dialect.js'
import { RevertError } from '../../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../../ground/storable.js'
import { currentAuthor } from './actor.js'
import type { RowChange } from './history.js'

/** The table that is locked while a mark is written. */
export const MARKS = { table: 'rate_limit_change' }

/** Returns the name by which the history has the incident of a client or a policy. */
export function incidentName(subject: string): string {
  return storable(subject, MAX_KEY_LENGTH)
}

/**
 * Records that the current actor ignores the incident of a client or a policy, or watches it again. It is about the incident
 * that goes on: one that begins later is not ignored.
 *
 * @param subject `ip:203.0.113.7`, `ip:203.0.113.0/24`, `user:7`, or `policy:search`
 */
export async function markIncident(
  database: Database,
  subject: string,
  isIgnored: boolean,
  nowMs: number,
): Promise<void> {
  await database.locked([MARKS.table], () => recordMark(database.dialect, incidentName(subject), isIgnored, nowMs))
}

function* recordMark(dialect: Dialect, name: string, isIgnored: boolean, nowMs: number): SqlWork<void> {
  const { actor, source, actionId } = currentAuthor()
  const states = [!isIgnored, isIgnored].map((ignored) => JSON.stringify({ ignored }))
  yield* runStatement(
    `INSERT INTO ${dialect.table(MARKS.table)}
       (changed_at, actor, source, action_id, entity, row_id, name, action, before, after)
     VALUES (${dialect.fromMs('$1')}, $2, $3, $4, 'incident', 0, $5, 'update', $6, $7)`,
    [nowMs, actor, source, actionId, name, ...states],
  )
}

/**
 * Reverts that an incident was ignored, or watched again.
 *
 * @throws RevertError where it was decided otherwise since
 */
export function* revertMark(
  dialect: Dialect,
  { id, name, after }: Pick<RowChange, 'id' | 'name' | 'after'>,
  nowMs: number,
): SqlWork<void> {
  const [last] = yield* runStatement<{ id: number }>(
    `SELECT MAX(id) AS id FROM ${dialect.table(MARKS.table)} WHERE entity = 'incident' AND name = $1`,
    [name],
  )
  if (last?.id !== id) {
    throw new RevertError(
      `Change ${id} of the incident of ${JSON.stringify(name)} cannot be reverted: it was changed again since. Revert the later changes first`,
    )
  }
  yield* recordMark(dialect, name, after?.ignored !== true, nowMs)
}
