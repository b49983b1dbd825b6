/** Reads the text of a document, which anybody who may compare one has written. */
import { RuleDocumentError } from '../../ground/errors.js'
import { CooperativeYield, type Steps } from '../../ground/time/cooperative-yield.js'
import { OVERRIDES } from '../overrides/override.js'
import { RULES } from '../rule.js'

/** The longest entry of a list, and the longest other value: entries have some thousand characters at most. */
const MAX_VALUE = 65_536
/** The most entries of a list: more than a form or a request to the API has room for, unless they are not valid. */
const MAX_ENTRIES = 500_000
/** The most fields of a document, which has four: the first of the others are named as errors. */
const MAX_FIELDS = 200
/** Matches some blanks. */
const BLANKS = /[ \t\r\n]{0,65536}/y
/** What stands behind a value. */
const ENDS = ',:]}'

/**
 * Parses the JSON of a document, and lets other work of the process run in between: no value of any length or depth, and
 * no number of entries, holds up the process.
 *
 * @throws SyntaxError for a text that is no JSON, RuleDocumentError for one that exceeds a bound
 */
export async function parseDocument(text: string): Promise<unknown> {
  if (text.length <= MAX_VALUE) return JSON.parse(text)
  const slices = new CooperativeYield()
  const parsing = new LongDocument(text).parse()
  for (;;) {
    const { done, value } = parsing.next()
    if (done) return value
    if (slices.over()) await slices.pause()
  }
}

/** A long document. Its values are found first, and then parsed one by one. */
class LongDocument {
  readonly #text: string
  #index = 0

  constructor(text: string) {
    this.#text = text
  }

  *parse(): Steps<unknown> {
    const fields = new Map<string, unknown>()
    yield* this.#skipBlanks()
    if (this.#text[this.#index] !== '{') throw new RuleDocumentError({ document: 'must be an object' })
    for (let hasMore = yield* this.#begins('}'); hasMore; hasMore = yield* this.#goesOn('}')) {
      const name = this.#parseValue('document')
      if (typeof name !== 'string') throw this.#unexpected()
      yield* this.#skipBlanks()
      if (this.#text[this.#index] !== ':') throw this.#unexpected()
      this.#index++
      yield* this.#skipBlanks()
      const isList = (name === RULES.list || name === OVERRIDES.list) && this.#text[this.#index] === '['
      fields.set(name, isList ? yield* this.#parseList(name) : this.#parseValue(name))
      if (fields.size > MAX_FIELDS) throw new RuleDocumentError({ document: `has more than ${MAX_FIELDS} fields` })
    }
    yield* this.#skipBlanks()
    if (this.#index < this.#text.length) throw this.#unexpected()
    return Object.fromEntries(fields)
  }

  *#parseList(name: string): Steps<unknown[]> {
    const entries: unknown[] = []
    for (let hasMore = yield* this.#begins(']'); hasMore; hasMore = yield* this.#goesOn(']')) {
      if (entries.length === MAX_ENTRIES)
        throw new RuleDocumentError({ [name]: `has more than ${MAX_ENTRIES} entries` })
      entries.push(this.#parseValue(`${name}[${entries.length}]`))
    }
    return entries
  }

  /** Steps over an opening bracket; returns false, and steps over the closing one, where nothing is between them. */
  *#begins(closing: string): Steps<boolean> {
    this.#index++
    yield* this.#skipBlanks()
    if (this.#text[this.#index] !== closing) return true
    this.#index++
    return false
  }

  /** Steps over the comma behind a value, or over the closing bracket, for which it returns false. */
  *#goesOn(closing: string): Steps<boolean> {
    yield* this.#skipBlanks()
    const next = this.#text[this.#index]
    if (next !== ',' && next !== closing) throw this.#unexpected()
    this.#index++
    yield* this.#skipBlanks()
    return next === ','
  }

  *#skipBlanks(): Steps<void> {
    for (let start = -1; start < this.#index; yield) {
      start = this.#index
      BLANKS.lastIndex = start
      BLANKS.test(this.#text)
      this.#index = BLANKS.lastIndex
    }
  }

  #parseValue(location: string): unknown {
    const start = this.#index
    this.#index = this.#findEnd(location)
    return JSON.parse(this.#text.slice(start, this.#index))
  }

  /** Returns where a value ends: at the comma, the colon or the bracket behind it. */
  #findEnd(location: string): number {
    const limit = this.#index + MAX_VALUE
    let depth = 0
    let isText = false
    for (let index = this.#index; index < limit; index++) {
      const character = this.#text[index]
      if (character === undefined) throw this.#unexpected(index)
      if (isText) {
        if (character === '\\') index++
        else if (character === '"') isText = false
      } else if (character === '"') isText = true
      else if (character === '{' || character === '[') depth++
      else if (depth === 0 && ENDS.includes(character)) return index
      else if (character === '}' || character === ']') depth--
    }
    throw new RuleDocumentError({ [location]: `is longer than ${MAX_VALUE} characters` })
  }

  #unexpected(index = this.#index): SyntaxError {
    const character = this.#text[index]
    const found = character === undefined ? 'end' : JSON.stringify(character)
    return new SyntaxError(`Unexpected ${found} at position ${index}`)
  }
}
