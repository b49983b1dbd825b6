/** The keys under which the event log has a client; see `ClientKey` in `src/http/client-key.ts`. */
import { MAX_KEY_LENGTH, storable } from '../db/storable.js'
import { compositeInAnyKey } from '../rules/composite.js'

/** The kinds of clients whose key shows only their value behind the name of a rule, and how much of the client that is. */
const VALUES = /^(?:ip:|(header|cookie):[^:]*:|(route):|(key):)(.*)$/s

/**
 * Returns the keys that a client's events may have.
 *
 * @param rules the names of all rules that may have decided
 */
export function keysForClient(client: string, rules: readonly string[]): string[] {
  const keys = new Set<string>()
  const add = (name: string, shown: string) => {
    for (const key of [name, ...rules.map((rule) => `rule:${rule}:${shown}`)]) keys.add(storable(key, MAX_KEY_LENGTH))
  }
  const [, valued, , custom, value = ''] = VALUES.exec(client) ?? []
  if (custom !== undefined) add(value, value)
  else if (valued !== undefined) add(`${valued}:${value}`, value)
  else add(client, value === '' ? client : value)
  if (client.includes('|')) {
    const shown = compositeInAnyKey(client)
    add(shown, shown)
  }
  return [...keys]
}
