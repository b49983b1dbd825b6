/**
 * The spelling of a client that several kinds identify together.
 *
 * As a client each part has its kind: `ip:203.0.113.7|header:x-a:1`. In a key it is spelled as alone: `203.0.113.7|1`.
 * In both a bar and a backslash of a value are escaped, so that no value spells a part more, and a part that the
 * request lacks is `-`. Where one is missing the address follows as a further part, unless it is among the kinds.
 */

import { type KeyPart, partName } from './client-kind.js'

const MISSING = '-'
const ADDRESS: KeyPart = { kind: 'ip' }
const USER = 'user:'
/** The beginnings of parts; a name of a header or cookie has no colon. */
const PART = /^(?:ip|user|route|(?:header|cookie):[^:|\\]+):/
const SPECIAL = /[\\|]/g

/** Spells a part of a client. The value is null where the request lacks it. */
export function spellPart(part: KeyPart, value: string | null): string {
  return `${partName(part)}:${value === null ? MISSING : escapeValue(value)}`
}

/** Spells a client that one kind identifies as a part of another one. */
export function asPart(client: string): string {
  const [begin = ''] = PART.exec(client) ?? []
  return begin + escapeValue(client.slice(begin.length))
}

function escapeValue(value: string): string {
  return value === MISSING ? `\\${MISSING}` : value.replace(SPECIAL, '\\$&')
}

/** Returns the value of a part without its escapes. */
function unescapeValue(text: string): string {
  return text.replace(/\\(.)/gs, '$1')
}

/** Splits a composite at the bars between its parts. */
export function splitComposite(text: string): string[] {
  const parts: string[] = []
  let begin = 0
  for (let place = 0; place < text.length; place++) {
    if (text[place] === '\\') place++
    else if (text[place] === '|') {
      parts.push(text.slice(begin, place))
      begin = place + 1
    }
  }
  return [...parts, text.slice(begin)]
}

/** Returns a client as keys show it, by the kinds that identify it. */
export function compositeInKey(client: string, parts: readonly KeyPart[]): string {
  return splitComposite(client)
    .map((text, place) => {
      const part = parts[place] ?? ADDRESS
      const value = text.slice(partName(part).length + 1)
      return part.kind === 'user' && value !== MISSING ? text : value
    })
    .join('|')
}

/** Returns the same for a client whose kinds are those that it spells. */
export function compositeInAnyKey(client: string): string {
  return splitComposite(client)
    .map((text) => (text.startsWith(USER) && text !== `${USER}${MISSING}` ? text : text.replace(PART, '')))
    .join('|')
}

/** Returns the client that a key shows; undefined for a key of other kinds. */
export function compositeFromKey(shown: string, parts: readonly KeyPart[]): string | undefined {
  const texts = splitComposite(shown)
  const further = texts.length - parts.length
  if (further !== 0 && further !== 1) return undefined
  return texts
    .map((text, place) => {
      const part = parts[place] ?? ADDRESS
      return part.kind === 'user' && text.startsWith(USER) ? text : `${partName(part)}:${text}`
    })
    .join('|')
}

/** Returns the spelled parts of a client by the names of their kinds; null for a client that is no composite. */
export function readComposite(client: string): ReadonlyMap<string, string | null> | null {
  if (!client.includes('|')) return null
  const texts = splitComposite(client)
  const values = new Map<string, string | null>()
  for (const text of texts) {
    const name = PART.exec(text)?.[0].slice(0, -1)
    if (name === undefined || values.has(name)) return null
    const value = text.slice(name.length + 1)
    values.set(name, value === MISSING ? null : unescapeValue(value))
  }
  return texts.length > 1 ? values : null
}
