/** The names of what limits and usage count: `requests`, `tokens`, `content-bytes`. */
import { InvalidSettingError } from './errors.js'
import { asText } from './storable.js'

export const UNIT = /^[a-z][a-z0-9_-]{0,29}$/
export const UNIT_ALLOWED = 'at most 30 of a-z 0-9 - _, beginning with a letter'
/** The unit of limits that name none. */
export const REQUESTS = 'requests'

/** @throws InvalidSettingError for a text that cannot be a unit */
export function parseUnit(value: unknown): string {
  const unit = asText(value)
  if (UNIT.test(unit)) return unit
  throw new InvalidSettingError(`${JSON.stringify(unit)} is not a valid unit: give ${UNIT_ALLOWED}, such as tokens`)
}
