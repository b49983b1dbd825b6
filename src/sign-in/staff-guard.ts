import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../internals.js'
import { type Clock, MINUTE_MS } from '../time/clock.js'
import { countRefusal } from './own-limits.js'
import type { StaffAccounts } from './staff-accounts.js'
import { fromDatabase, StaffOnlyError } from './staff-errors.js'

/** Returns whether a request comes from staff: only `true` means that it does. */
export type IsStaff = (request: FastifyRequest) => boolean | Promise<boolean>

/** Creates the hook before every staff route, which refuses every request that does not come from staff. */
export function createStaffGuard(internals: Internals, isStaff: IsStaff) {
  return async function staffGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if ((await isStaff(request)) === true) return
    await countRefusal(internals, request, reply)
    throw new StaffOnlyError()
  }
}

/**
 * Wraps the host's check, so that a failure means no.
 *
 * @param plugin the plugin that received the check
 */
export function hostStaff(isStaff: IsStaff, clock: Clock, plugin = 'dashboardPlugin'): IsStaff {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  return async function isStaffOfHost(request) {
    try {
      return await isStaff(request)
    } catch (error) {
      // Logged once a minute, so that strangers do not decide how much is logged.
      if (Math.abs(clock.now() - loggedAtMs) >= MINUTE_MS) {
        loggedAtMs = clock.now()
        request.log.error({ err: error }, `isStaff of ${plugin} failed: the request is refused`)
      }
      return false
    }
  }
}

/** Returns the check of the built-in sign-in. A failing database is an error, not a request to sign in again. */
export function accountStaff(accounts: StaffAccounts): IsStaff {
  return (request) => fromDatabase(accounts.isStaff(request))
}

/** Refuses every request, where no check is given. */
export function refuseAll(): boolean {
  return false
}
