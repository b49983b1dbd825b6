import type { FastifyRequest } from 'fastify'
import type { Database } from '../../database/database.js'
import { type Change, readAction } from '../../rules/history/history.js'
import { MAX_REVERTED } from '../../rules/history/revert.js'
import type { Right } from './roles.js'
import { requireMay } from './staff-member.js'

/** Returns the right that reverting a change takes. */
export function revertRight({ entity, action, before, after }: Change): Right {
  if (entity !== 'rule') return 'writeOverrides'
  const names = Object.keys({ ...before, ...after }).filter((name) => before?.[name] !== after?.[name])
  return action === 'update' && names.every((name) => name === 'isActive') ? 'switchRules' : 'writeRules'
}

/**
 * Checks that who sent a request may revert a change, with all others of its action.
 *
 * @returns the number of changes
 * @throws StaffOnlyError for a stranger, ActionDeniedError for staff without a right
 */
export async function requireMayRevert(request: FastifyRequest, database: Database, { id }: Change): Promise<number> {
  const changes = await readAction(database, id, MAX_REVERTED)
  for (const right of new Set(changes.map(revertRight))) requireMay(request, right)
  return changes.length
}
