/**
 * The grammar of a key, which says by what requests are counted:
 *
 *     key  = "all" | kind | kind "+" kind | kind "+" kind "+" kind     each kind once
 *     kind = "ip" | "user" | "user." field | "route" | "header:" name | "cookie:" name
 *     name = 1 to 100 characters of a token, without "+" and "|"
 *     field = a letter, then at most 49 of letters, digits and "_"
 */

import { asText } from '../ground/storable.js'

/** The kind by which requests are counted, one at a time. The name of a header is in lower case. */
export type KeyPart =
  | { readonly kind: 'ip' }
  | { readonly kind: 'user' }
  | { readonly kind: 'userField'; readonly name: string }
  | { readonly kind: 'route' }
  | { readonly kind: 'header'; readonly name: string }
  | { readonly kind: 'cookie'; readonly name: string }

/** The kinds by which requests are counted: one, several together, or none, so that all clients share one counter. */
export type ClientKind =
  | KeyPart
  | { readonly kind: 'all' }
  | { readonly kind: 'composite'; readonly parts: readonly KeyPart[] }

export const MAX_CLIENT_KIND_LENGTH = 255
const MAX_PARTS = 3
const USER_FIELD = /^user\.([a-zA-Z]\w{0,49})$/
const NAMED = /^(header|cookie):([!#$%&'*.^_`~0-9A-Za-z-]{1,100})$/
/** The header that Node.js loses: setting `__proto__` to a text has no effect on the object of headers. */
const UNREAD_HEADER = '__proto__'
const ACCEPTED =
  'give ip, user or header:<Header-Name>, also user.<field>, cookie:<name> or route, up to three with + between (a name has no + and no |); or all, alone'

/** Parses what requests are counted by, such as `ip`, `user+header:X-Api-Key` or `all`. */
export function parseClientKind(value: unknown): ClientKind {
  const text = asText(value)
  if (text.length > MAX_CLIENT_KIND_LENGTH) throw new Error(`must be at most ${MAX_CLIENT_KIND_LENGTH} characters long`)
  if (text === 'all') return { kind: 'all' }
  const spelled = text.split('+')
  const parts = spelled.map(parsePart)
  const [only] = parts
  if (only !== undefined && parts.length === 1) return only
  if (parts.length > MAX_PARTS) throw new Error(`has ${parts.length} kinds: give at most ${MAX_PARTS}`)
  const names = parts.map(partName)
  const twice = spelled.find((_, index) => names.indexOf(names[index] ?? '') !== index)
  if (twice !== undefined) throw new Error(`has ${JSON.stringify(twice)} twice: give each kind once`)
  return { kind: 'composite', parts }
}

function parsePart(text: string): KeyPart {
  if (text === 'ip' || text === 'user' || text === 'route') return { kind: text }
  if (text === 'all') throw new Error('has "all" beside other kinds: give all alone, or leave it out')
  const [, field] = USER_FIELD.exec(text) ?? []
  if (field !== undefined) return { kind: 'userField', name: field }
  if (text.startsWith('user.')) {
    throw new Error(
      `${JSON.stringify(text)} names no field of the user: give a letter, then at most 49 of letters, digits and _, such as user.org`,
    )
  }
  const [, kind, name] = NAMED.exec(text) ?? []
  if (name === undefined) throw new Error(`${JSON.stringify(text)} is not a valid key: ${ACCEPTED}`)
  if (kind === 'cookie') return { kind, name }
  if (name.toLowerCase() === UNREAD_HEADER) {
    throw new Error(`${JSON.stringify(text)} names a header whose value Node.js does not keep: give another header`)
  }
  return { kind: 'header', name: name.toLowerCase() }
}

/** Returns the name of a kind, which begins the spelling of a client: `ip`, `user.org`, `header:x-api-key`. */
export function partName(part: KeyPart): string {
  if (part.kind === 'userField') return `user.${part.name}`
  return 'name' in part ? `${part.kind}:${part.name}` : part.kind
}

/** Returns the kinds by which requests are counted; none where all clients share one counter. */
export function partsFor(client: ClientKind): readonly KeyPart[] {
  if (client.kind === 'composite') return client.parts
  return client.kind === 'all' ? [] : [client]
}

/** Returns whether requests are counted by a kind, alone or together with others. */
export function countsBy(client: ClientKind, kind: KeyPart['kind']): boolean {
  return partsFor(client).some((part) => part.kind === kind)
}

/** Returns whether requests are counted by their user, or by a field of it. */
export function countsByUser(client: ClientKind): boolean {
  return countsBy(client, 'user') || countsBy(client, 'userField')
}

/** Returns a kind as `parseClientKind` takes it where it was typed with other blanks or letters: `IP + User`. */
export function spellClientKind(typed: string): string {
  return typed
    .trim()
    .replace(/\s*([+:])\s*/g, '$1')
    .replace(/(?<=^|\+)(?:ip|user|route|all|header(?=:)|cookie(?=:))/gi, (kind) => kind.toLowerCase())
}
