import type { FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../src/errors.js'
import type { StaffAccounts } from '../src/staff/staff-accounts.js'
import type { IsStaff } from '../src/staff/staff-guard.js'
import { checkIsStaff, checkKnownOptions } from '../src/staff/staff-options.js'

export interface AdminOptions {
  /**
   * Where the panel is, as browsers ask for it: `/admin` unless given. A prefix that the plugin is registered with comes
   * before it. A proxy in front must not rewrite it.
   */
  readonly rootPath?: string | undefined
  /** What `staffAccounts()` answered, for hosts without a sign-in. */
  readonly staff?: StaffAccounts | undefined
  /**
   * Whether a request comes from staff, for hosts with a sign-in of their own. Only `true` lets it in; a throw is a
   * refusal. It runs in an `onRequest` hook, after those the host registered before.
   */
  readonly isStaff?: IsStaff | undefined
  /** With `isStaff`: who a request comes from, for the history; it may be async. `staff` unless given. */
  readonly actor?: ((request: FastifyRequest) => string | Promise<string>) | undefined
}

/** Those of this plugin, and those that Fastify takes for every plugin. */
const KNOWN_OPTIONS = ['rootPath', 'staff', 'isStaff', 'actor', 'prefix', 'logLevel', 'logSerializers']
const DEFAULT_ROOT_PATH = '/admin'
/** No parameter, nothing that has to be encoded, and no slash at the end. */
const ROOT_PATH = /^(?:\/[\w.~-]+)+$/

/**
 * @returns the root path
 * @throws InvalidSettingError for a wrong or unknown option
 */
export function checkOptions(options: AdminOptions): string {
  const { rootPath = DEFAULT_ROOT_PATH, staff, isStaff, actor } = options
  checkKnownOptions('adminPlugin', options, KNOWN_OPTIONS)
  if (!ROOT_PATH.test(rootPath)) {
    throw new InvalidSettingError(
      `Option "rootPath" is ${JSON.stringify(rootPath)}: give a path such as /admin or /ops/admin, without a slash at its end`,
    )
  }
  if (staff !== undefined && typeof staff?.accountOf !== 'function') {
    throw new InvalidSettingError('Option "staff" is not what staffAccounts({ accounts, sessionSecret }) answers')
  }
  checkIsStaff(isStaff)
  if (actor !== undefined && typeof actor !== 'function') {
    throw new InvalidSettingError('Option "actor" is no function: give one of the request that answers a name')
  }
  if (staff !== undefined && (isStaff !== undefined || actor !== undefined)) {
    throw new InvalidSettingError(
      'Options "staff" and "isStaff" or "actor" are both given: decide who tells who is staff',
    )
  }
  return rootPath
}
