/** What the options of the staff plugins have in common. */
import { InvalidSettingError } from '../errors.js'

/** @throws InvalidSettingError for an option that the plugin does not take */
export function checkKnownOptions(plugin: string, options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown === undefined) return
  throw new InvalidSettingError(`Option "${unknown}" of ${plugin} is unknown: it takes ${known.join(', ')}`)
}

/** @throws InvalidSettingError for what is given and is no function */
export function checkIsStaff(isStaff: unknown): void {
  if (isStaff === undefined || typeof isStaff === 'function') return
  throw new InvalidSettingError('Option "isStaff" is no function: give one of the request that answers true for staff')
}
