import { InvalidSettingError } from '../errors.js'

/** A namespace has nothing of what counters' names are made of: so no name in one spells a name in another, or in none. */
export const NAMESPACE = /^[A-Za-z0-9_.-]{1,50}$/
export const NAMESPACE_ALLOWED = '1 to 50 letters, digits, _ . -'

/**
 * For stores that a host makes itself.
 *
 * @throws InvalidSettingError
 */
export function checkNamespace(namespace: string | undefined): void {
  if (namespace === undefined || NAMESPACE.test(namespace)) return
  throw new InvalidSettingError(`Setting "namespace" is ${JSON.stringify(namespace)}: give ${NAMESPACE_ALLOWED}`)
}
