import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../../ground/errors.js'
import { shown } from '../../ground/setting.js'
import { type Clock, MINUTE_MS } from '../../ground/time/clock.js'
import { validatePluginOptions } from '../../ground/unknown-option.js'
import type { StaffAccounts } from '../sign-in/staff-accounts.js'
import { fromDatabase } from './staff-errors.js'
import { countRefusal, type StaffLimits } from './staff-limits.js'
import {
  noteMember,
  noteStranger,
  type StaffAnswer,
  type StaffMember,
  staffOnly,
  toStaffMember,
} from './staff-member.js'

/**
 * Returns whether a request comes from staff, and who it is: `{ actor, role }`, a role, or `true` for an admin. The
 * dashboard offers actions only to those who are known by name.
 */
export type IsStaff = (request: FastifyRequest) => StaffAnswer | Promise<StaffAnswer>

/** Returns who sent a request; undefined for a stranger. */
export type FindMember = (request: FastifyRequest) => Promise<StaffMember | undefined>

/** A hook that notes who sent a request, or refuses it. */
export type Guard = (request: FastifyRequest, reply: FastifyReply) => Promise<void>

/**
 * Returns the hooks that ask a guard before a request, and once more when its body has arrived: that may take minutes, in
 * which a role is lost.
 */
export function guardHooks(guard: Guard): { readonly onRequest: Guard; readonly preHandler: Guard } {
  return {
    onRequest: guard,
    preHandler: async (request, reply) => {
      if (request.body !== undefined) await guard(request, reply)
    },
  }
}

/** Asks a guard before every request of a scope. */
export function addGuard(scope: FastifyInstance, guard: Guard): void {
  const { onRequest, preHandler } = guardHooks(guard)
  scope.addHook('onRequest', onRequest)
  scope.addHook('preHandler', preHandler)
}

/** Creates the guard of the staff routes, which refuses every request that does not come from staff. */
export function createStaffGuard(limits: StaffLimits, findMember: FindMember): Guard {
  return async function staffGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const member = await findMember(request)
    if (member === undefined) {
      await countRefusal(limits, request, reply)
      throw staffOnly(request)
    }
    noteMember(request, member)
  }
}

/**
 * Wraps the host's check, so that a failure means no.
 *
 * @param plugin the plugin that received the check
 */
export function hostStaff(isStaff: IsStaff, clock: Clock, plugin: string, option = 'isStaff'): FindMember {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  return async function isStaffOfHost(request) {
    try {
      const answer: unknown = await isStaff(request)
      const member = toStaffMember(answer)
      if (member === undefined) {
        noteStranger(request, `${option} answered ${shown(answer)}: it lets in whom it answers { actor, role }`)
      }
      return member
    } catch (error) {
      // A TypeError is about the answer or the code. Other errors, such as a database's, are for the log alone.
      const reason = error instanceof TypeError ? error.message : "the reason is in the server's log"
      noteStranger(request, `${option} failed: ${reason}`)
      // Logged once a minute, so that strangers do not decide how much is logged.
      if (Math.abs(clock.now() - loggedAtMs) >= MINUTE_MS) {
        loggedAtMs = clock.now()
        request.log.error({ err: error }, `${option} of ${plugin} failed: the request is refused`)
      }
      return undefined
    }
  }
}

/** Returns the check of the built-in sign-in. A failing database is an error, not a request to sign in again. */
function accountStaff(staff: StaffAccounts): FindMember {
  return (request) => fromDatabase(staff.memberFor(request))
}

/** Returns the check that the options of a plugin name. Without one every request is refused. */
export function staffCheck({ staff, isStaff }: StaffOptions, clock: Clock, plugin = 'dashboardPlugin'): FindMember {
  if (staff !== undefined) return accountStaff(staff)
  if (isStaff !== undefined) return hostStaff(isStaff, clock, plugin)
  return async (request) => {
    noteStranger(request, `${plugin} has neither "staff" nor "isStaff"`)
    return undefined
  }
}

/** The options of `dashboardPlugin` and `adminPlugin` that decide who is staff. */
export interface StaffOptions {
  /** The result of `staffAccounts()`, for hosts without a sign-in. */
  readonly staff?: StaffAccounts | undefined
  /**
   * Returns whether a request comes from staff, for hosts with a sign-in of their own: `{ actor, role }`, a role, or
   * `true` for an admin. The dashboard lets only those act who are named. A throw is a refusal. It runs in an
   * `onRequest` hook, after those that the host registered before.
   */
  readonly isStaff?: IsStaff | undefined
}

/**
 * Validates the options of a plugin.
 *
 * @param pluginOptions the further options of the plugin
 * @throws InvalidSettingError for an unknown option, or an invalid one of these
 */
export function validateStaffOptions(plugin: string, options: StaffOptions, pluginOptions: readonly string[]): void {
  validatePluginOptions(plugin, options, ['staff', 'isStaff', ...pluginOptions, 'prefix'])
  const { staff, isStaff } = options
  if (staff !== undefined && typeof staff?.accountFor !== 'function') {
    throw new InvalidSettingError('Option "staff" is not what staffAccounts({ accounts, sessionSecret }) returns')
  }
  if (isStaff !== undefined && typeof isStaff !== 'function') {
    throw new InvalidSettingError(
      'Option "isStaff" is not a function: give one that takes the request and returns true for staff',
    )
  }
  if (staff !== undefined && isStaff !== undefined) {
    throw new InvalidSettingError('Options "staff" and "isStaff" are both set: set only one of them')
  }
}
