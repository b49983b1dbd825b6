import { createHash } from 'node:crypto'

const VERSION_LENGTH = 22

/** Returns the version of a row for optimistic locking: a hash of its fields. */
export function entryVersion(entry: object): string {
  return createHash('sha256').update(JSON.stringify(entry)).digest('base64url').slice(0, VERSION_LENGTH)
}
