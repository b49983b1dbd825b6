import { InvalidSettingError } from '../errors.js'
import type { StaffAccounts } from './staff-accounts.js'
import type { IsStaff } from './staff-guard.js'

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

/** The options that Fastify takes for every plugin. */
const FASTIFY_OPTIONS = ['prefix', 'logLevel', 'logSerializers']

/**
 * Validates the options of a plugin.
 *
 * @param known the further options of the plugin
 * @throws InvalidSettingError for an unknown option, or an invalid one of these
 */
export function validateStaffOptions(plugin: string, options: StaffOptions, known: readonly string[]): void {
  const taken = ['staff', 'isStaff', ...known, ...FASTIFY_OPTIONS]
  const unknown = Object.keys(options).find((name) => !taken.includes(name))
  if (unknown !== undefined) {
    throw new InvalidSettingError(`Option "${unknown}" of ${plugin} is unknown: it takes ${taken.join(', ')}`)
  }
  const { staff, isStaff } = options
  if (staff !== undefined && typeof staff?.accountFor !== 'function') {
    throw new InvalidSettingError('Option "staff" is not what staffAccounts({ accounts, sessionSecret }) answers')
  }
  if (isStaff !== undefined && typeof isStaff !== 'function') {
    throw new InvalidSettingError(
      'Option "isStaff" is no function: give one of the request that answers true for staff',
    )
  }
  if (staff !== undefined && isStaff !== undefined) {
    throw new InvalidSettingError(
      'Options "staff" and "isStaff" are both given: give the one that decides who is staff',
    )
  }
}
