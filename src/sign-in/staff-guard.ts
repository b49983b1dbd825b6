import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { type Clock, MINUTE_MS } from '../time/clock.js'
import { countRefusal } from './own-limits.js'
import type { StaffAccounts } from './staff-accounts.js'
import { fromDatabase, StaffOnlyError } from './staff-errors.js'

/** Whether a request comes from staff: nothing but `true` means that it does. */
export type IsStaff = (request: FastifyRequest) => boolean | Promise<boolean>

/** The hook before every staff route: whoever is not known as staff is refused, whatever the request asks for. */
export function createStaffGuard(internals: Internals, isStaff: IsStaff) {
  return async function staffGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if ((await isStaff(request)) === true) return
    await countRefusal(internals, request, reply)
    throw new StaffOnlyError()
  }
}

/**
 * The check a host brings, with a failure meaning no.
 *
 * @param plugin that was given it
 */
export function hostStaff(isStaff: IsStaff, clock: Clock, plugin = 'dashboardPlugin'): IsStaff {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  return async function isStaffOfHost(request) {
    try {
      return await isStaff(request)
    } catch (error) {
      // Not for each request: strangers would decide how much is logged.
      if (Math.abs(clock.now() - loggedAtMs) >= MINUTE_MS) {
        loggedAtMs = clock.now()
        request.log.error({ err: error }, `isStaff of ${plugin} failed: the request is refused`)
      }
      return false
    }
  }
}

/** The built-in sign-in. When the database cannot tell, that is said instead of asking staff to sign in again. */
export function accountStaff(accounts: StaffAccounts): IsStaff {
  return (request) => fromDatabase(accounts.isStaff(request))
}

/** Without any check nobody is staff. */
export function nobodyIsStaff(): boolean {
  return false
}
