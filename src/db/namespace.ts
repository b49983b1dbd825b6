import { InvalidSettingError } from '../errors.js'

/** Excludes the separators of counters' names, so that no name in a namespace equals one in another, or in none. */
export const NAMESPACE = /^[A-Za-z0-9_.-]{1,50}$/
export const NAMESPACE_ALLOWED = '1 to 50 letters, digits, _ . -'

/**
 * Validates the namespace of a store that the host creates.
 *
 * @throws InvalidSettingError
 */
export function validateNamespace(namespace: string | undefined): void {
  if (namespace === undefined || NAMESPACE.test(namespace)) return
  throw new InvalidSettingError(`Setting "namespace" is ${JSON.stringify(namespace)}: give ${NAMESPACE_ALLOWED}`)
}
