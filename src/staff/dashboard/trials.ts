/** Requests that staff ask about: who sends them, and with which headers. */

import { parseClient } from '../../clients/client.js'
import { clientAddress, isPseudonym } from '../../clients/client-networks.js'

/** Fields of a user beside the id. */
type UserFields = Readonly<Record<string, string | number | boolean>>

/** The sender of a request. */
interface Trial {
  readonly ip: string | undefined
  /** The user's id. */
  readonly user: string | null
  readonly fields: UserFields
  readonly headers: Readonly<Record<string, string>>
}

/** The most lines: more are no headers of one request. */
const MAX_HEADERS = 50
/** The most fields: more are no user that anybody types. */
const MAX_FIELDS = 50
/** A line of a header: a token, a colon, and a value without control characters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\u0000-\u0008\u000a-\u001f\u007f]*)$/
/** A line of a field: a name, a colon, and a value. */
const FIELD_LINE = /^([a-zA-Z_]\w{0,49})[ \t]*:[ \t]*(.*)$/
/** A value that is no text. Other spellings of a number, such as 007, are texts. */
const LITERAL = /^(?:true|false|-?(?:0|[1-9]\d{0,14}))$/
const FIELD = 'user.'
const COOKIE = 'cookie:'
const HEADER = 'header:'
/** The fields that a request does not have by itself. */
const NOT_SENT: ReadonlySet<string> = new Set(['route', 'key'])

/** Reads lines such as `x-api-key: abc`; returns a sentence where one is none. Blank lines are left out. */
export function parseHeaders(text: string): Trial['headers'] | string {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const headers: Record<string, string> = Object.create(null)
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const [, name, value = ''] = HEADER_LINE.exec(line) ?? []
    if (name === undefined) return `Line ${index + 1} of the headers is not valid: give lines such as x-api-key: abc`
    addHeader(headers, name.toLowerCase(), value)
  }
  const count = Object.keys(headers).length
  return count > MAX_HEADERS ? `The request has ${count} headers: give ${MAX_HEADERS} at most` : headers
}

/** Reads lines such as `org: acme`; returns a sentence where one is none. */
export function parseUserFields(text: string): UserFields | string {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const fields: Record<string, string | number | boolean> = Object.create(null)
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const [, name, value = ''] = FIELD_LINE.exec(line) ?? []
    if (name === undefined) return `Line ${index + 1} of the user’s fields is not valid: give lines such as org: acme`
    fields[name] = LITERAL.test(value) ? JSON.parse(value) : value
  }
  const count = Object.keys(fields).length
  return count > MAX_FIELDS ? `The user has ${count} fields: give ${MAX_FIELDS} at most` : fields
}

/** Spells fields as `parseUserFields` reads them. */
export function spellUserFields(fields: UserFields): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

/** Returns the user of a request as `explain()` takes it; undefined without one. */
export function describeUser(id: string, fields: UserFields): string | object | undefined {
  if (Object.keys(fields).length > 0) return id === '' ? fields : { ...fields, id }
  return id === '' ? undefined : id
}

/** Spells headers as `parseHeaders` reads them. */
export function spellHeaders(headers: Trial['headers']): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

/** Adds a value as servers do: those of one header are a list. */
function addHeader(headers: Record<string, string>, name: string, value: string): void {
  const before = headers[name]
  headers[name] = before === undefined ? value : `${before}${name === 'cookie' ? '; ' : ', '}${value}`
}

/** Returns what a request of a client has; undefined where that is not known. */
export function trialFor(client: string): Trial | undefined {
  const parts = parseClient(client)?.parts
  if (parts === undefined || (parts.length === 1 && parts.some(({ name }) => NOT_SENT.has(name)))) return undefined
  const headers: Record<string, string> = {}
  const fields: Record<string, string> = {}
  let ip: string | undefined
  let user: string | null = null
  for (const { name: kind, value } of parts) {
    if (value === null) continue
    if (kind === 'ip') ip = isPseudonym(`ip:${value}`) ? value : clientAddress(`ip:${value}`)?.address
    else if (kind === 'user') user = value
    else if (kind.startsWith(FIELD)) {
      const name = kind.slice(FIELD.length)
      const read = parseUserFields(`${name}: ${value}`)
      // No line of the form has line breaks, or blanks at an end.
      if (typeof read === 'string' || String(read[name]) !== value) return undefined
      fields[name] = value
    } else if (kind.startsWith(HEADER)) headers[kind.slice(HEADER.length)] = value
    else if (kind.startsWith(COOKIE)) addHeader(headers, 'cookie', `${kind.slice(COOKIE.length)}=${value}`)
  }
  return { ip, user, fields, headers }
}
