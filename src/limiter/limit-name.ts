/** The names that events, metrics and `explain()` have for other limits. */
export const RESERVED_NAMES = ['default', 'override', 'deny-list', 'allow-list', 'ceiling', 'path-length', 'route']

/** @throws Error for a name that events could not tell from that of another limit: a reserved one, or a prefix */
export function validateLimitName(name: string): void {
  if (RESERVED_NAMES.includes(name)) {
    throw new Error(`${JSON.stringify(name)} is reserved: give another name than ${RESERVED_NAMES.join(', ')}`)
  }
  if (name.startsWith('/')) throw new Error('must not begin with "/": path prefixes do')
}
