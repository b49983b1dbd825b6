/**
 * The client that a limit counts, and the grammar of its text.
 *
 *     client  = "all" | part *( "|" part )
 *     part    = name ":" value
 *     name    = "ip" | "user" | "user." field | "route" | "key" | "header:" header | "cookie:" cookie
 *     value   = "-"                                 the request has none
 *             | 1*( any but "|" "\" | "\" any )     a value that is just "-" is "\-"
 *
 * Where a value is missing the address is a further part. A client of one part has its value as it is, without escapes,
 * in the log and in overrides; in counters (`counter.ts`) each part has them. The key of the log leaves names out: see
 * `formatKey`.
 */

import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { type ClientKind, type KeyPart, partName } from './client-kind.js'

export interface ClientPart {
  /** The kind by which requests are counted, as `partName` has it; `key` for what a function of the host answered. */
  readonly name: string
  /** The value; null where the request has none. */
  readonly value: string | null
}

export interface Client {
  /** None where all clients are counted together. */
  readonly parts: readonly ClientPart[]
  /** The client as log, overrides and reports have it. */
  readonly text: string
}

const MISSING = '-'
const ADDRESS: KeyPart = { kind: 'ip' }
/** Matches the beginning of a client: its kind, or all of it where requests share one counter. */
export const CLIENT_BEGINNING = /^(?:all$|(?:ip|user(?:\.\w+)?|route|key|header|cookie):)/
const PART = /^(ip|user|user\.[a-zA-Z]\w{0,49}|route|key|(?:header|cookie):[^:|\\]+):(.*)$/s
const NAMED = /^(header|cookie):/
/** Matches the key of a rule's client; names of rules have no colon. */
const RULE_KEY = /^rule:([^:]+):(.*)$/s

export const EVERYBODY: Client = { parts: [], text: 'all' }

export function createClient(...parts: readonly ClientPart[]): Client {
  return { parts, text: formatClient(parts) }
}

export function addressClient(address: string): Client {
  return createClient({ name: 'ip', value: address })
}

/** Formats a client as log, overrides and reports have it. */
function formatClient(parts: readonly ClientPart[]): string {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return `${only.name}:${only.value}`
  return parts.length === 0 ? EVERYBODY.text : parts.map(formatPart).join('|')
}

/** Formats a part, with the escapes of its value. */
export function formatPart({ name, value }: ClientPart): string {
  return `${name}:${value === null ? MISSING : escapeValue(value)}`
}

function escapeValue(value: string): string {
  return value === MISSING ? `\\${MISSING}` : escapeBars(value)
}

/** Escapes the bars of a text, and its backslashes. */
export function escapeBars(text: string): string {
  return text.replace(/[\\|]/g, '\\$&')
}

/** Parses a part that `formatPart` wrote; undefined for another text. */
function parsePart(text: string): ClientPart | undefined {
  const [, name, value = ''] = PART.exec(text) ?? []
  return name === undefined ? undefined : { name, value: value === MISSING ? null : value.replace(/\\(.)/gs, '$1') }
}

/** Returns the texts of the parts: splits a text at the bars that no backslash precedes. */
export function splitParts(text: string): string[] {
  const parts: string[] = []
  let begin = 0
  for (let index = 0; index < text.length; index++) {
    if (text[index] === '\\') index++
    else if (text[index] === '|') {
      parts.push(text.slice(begin, index))
      begin = index + 1
    }
  }
  return [...parts, text.slice(begin)]
}

/** Parses parts that `formatPart` wrote, with bars between; undefined for a text that has others, or one of them twice. */
export function parseParts(text: string): Client | undefined {
  if (text === EVERYBODY.text) return EVERYBODY
  const parts = splitParts(text).map(parsePart)
  const isWhole = (each: (ClientPart | undefined)[]): each is ClientPart[] => !each.includes(undefined)
  if (!isWhole(parts) || new Set(parts.map(({ name }) => name)).size < parts.length) return undefined
  return createClient(...parts)
}

/** Parses a client of several parts; undefined for a text that is none. */
export function parseComposite(text: string): Client | undefined {
  const client = text.includes('|') ? parseParts(text) : undefined
  return client !== undefined && client.parts.length > 1 && client.parts.every(({ name }) => name !== 'key')
    ? client
    : undefined
}

/**
 * Parses a client as log, overrides and reports have it; undefined for a text that is none.
 *
 * @param mayBeComposite false where it is known that bars belong to a value
 */
export function parseClient(text: string, mayBeComposite = true): Client | undefined {
  if (text === EVERYBODY.text) return EVERYBODY
  const composite = mayBeComposite ? parseComposite(text) : undefined
  const [, name, value = ''] = composite === undefined ? (PART.exec(text) ?? []) : []
  return name === undefined ? composite : createClient({ name, value })
}

/** Returns whether a client is counted by its address, alone or together with others. */
export function isByAddress({ parts }: Client): boolean {
  return parts.some(isAddressPart)
}

function isAddressPart({ name }: ClientPart): boolean {
  return name === ADDRESS.kind
}

/**
 * Formats the key of the log: a rule's begins with `rule:<name>:`. Parts lose their names, a user never; alone and
 * without a rule the others keep their kind, but for what a function of the host answered.
 */
export function formatKey({ parts, text }: Client, rule?: string): string {
  const [only] = parts
  const shown = parts.length === 1 && only !== undefined ? formatOnly(only, rule !== undefined) : formatParts(text)
  return rule === undefined ? shown : `rule:${rule}:${shown}`
}

function formatOnly({ name, value }: ClientPart, isShort: boolean): string {
  if (name === 'key' || (isShort && name !== 'user')) return value ?? MISSING
  return `${NAMED.exec(name)?.[1] ?? name}:${value}`
}

/** Splits a key of the log into the name of its rule, undefined where there is none, and the client behind it. */
export function splitKey(key: string): { readonly rule: string | undefined; readonly shown: string } {
  const [, rule, shown = key] = RULE_KEY.exec(key) ?? []
  return { rule, shown }
}

/** Returns the text of several parts as keys have it. */
function formatParts(text: string): string {
  return splitParts(text)
    .map((part) => {
      const [, name, value = part] = PART.exec(part) ?? []
      return name === 'user' && value !== MISSING ? part : value
    })
    .join('|')
}

/**
 * Returns whether a client of the log has several parts. The value of a header alone may spell further ones; then the
 * key has it as it is, with their names. A key of another client, of a rule in a group, does not tell.
 */
export function isComposite({ client, key }: { readonly client: string; readonly key: string }): boolean {
  if (!client.includes('|')) return false
  const expected = formatParts(client)
  const { rule, shown } = splitKey(key)
  if (shown === expected || (key.length >= MAX_KEY_LENGTH && expected.startsWith(shown))) return true
  const alone = parseClient(client, false)
  const isAlone = alone !== undefined && storable(formatKey(alone, rule), MAX_KEY_LENGTH) === key
  return !isAlone && parseComposite(client) !== undefined
}

/** Returns the clients that may have a key in the log, by what their limit counts. */
export function clientsForKey(key: string, kind: ClientKind): Client[] {
  const { rule, shown } = splitKey(key)
  if (kind.kind === 'composite') return [parseKeyParts(shown, kind.parts)].flatMap((client) => client ?? [])
  if (kind.kind === 'all') return shown === EVERYBODY.text ? [EVERYBODY] : []
  // A request without the header, the cookie or the user is counted by the address.
  return [kind, ADDRESS].flatMap((each) => {
    const shownName = each.kind === 'userField' ? partName(each) : each.kind
    const before = rule === undefined || each.kind === 'user' ? `${shownName}:` : ''
    return shown.startsWith(before) ? [createClient({ name: partName(each), value: shown.slice(before.length) })] : []
  })
}

/** Returns the client of several parts that a key has without their names; undefined for a key of others. */
function parseKeyParts(shown: string, kinds: readonly KeyPart[]): Client | undefined {
  const texts = splitParts(shown)
  const further = texts.length - kinds.length
  if (further !== 0 && further !== 1) return undefined
  const parts = texts.map((text, index) => {
    const kind = kinds[index] ?? ADDRESS
    return kind.kind === 'user' && text.startsWith('user:') ? text : `${partName(kind)}:${text}`
  })
  return parseParts(parts.join('|'))
}
