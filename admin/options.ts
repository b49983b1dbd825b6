import type { FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../src/ground/errors.js'
import { type StaffOptions, validateStaffOptions } from '../src/staff/shell/staff-guard.js'

export interface AdminOptions extends StaffOptions {
  /**
   * The path of the panel, as browsers request it; `/admin` by default. The prefix of the plugin comes before it. A
   * proxy in front must not rewrite it.
   */
  readonly rootPath?: string | undefined
  /** Returns the actor of a request for the history, with `isStaff`; may be async. `staff` by default. */
  readonly actor?: ((request: FastifyRequest) => string | Promise<string>) | undefined
}

const DEFAULT_ROOT_PATH = '/admin'
/** A path without parameters, encoded characters, and a slash at the end. */
const ROOT_PATH = /^(?:\/[\w.~-]+)+$/

/**
 * Validates the options.
 *
 * @returns the root path
 * @throws InvalidSettingError for a wrong or unknown option
 */
export function validateAdminOptions(options: AdminOptions): string {
  const { rootPath = DEFAULT_ROOT_PATH, staff, actor } = options
  validateStaffOptions('adminPlugin', options, ['rootPath', 'actor'])
  if (!ROOT_PATH.test(rootPath)) {
    throw new InvalidSettingError(
      `Option "rootPath" is ${JSON.stringify(rootPath)}: give a path such as /admin or /ops/admin, without a slash at its end`,
    )
  }
  if (actor !== undefined && typeof actor !== 'function') {
    throw new InvalidSettingError(
      'Option "actor" is not a function: give one that takes the request and returns a name',
    )
  }
  if (staff !== undefined && actor !== undefined) {
    throw new InvalidSettingError('Options "staff" and "actor" are both given: the accounts of "staff" are the actors')
  }
  return rootPath
}
