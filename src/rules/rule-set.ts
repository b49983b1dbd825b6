import { RE2JS, RE2Set } from 're2js'
import type { Rule } from './rule.js'

/** Paths that repeat are not matched again; forgotten together when there are too many. */
const REMEMBERED = 4_096
/** A longer path is matched each time, so that hostile ones cannot fill the memory. */
const REMEMBERED_PATH_LENGTH = 256

/** What the router makes of paths, and patterns have to follow. */
export interface PathOptions {
  readonly caseSensitive: boolean
  /** A path with and without a slash at its end reaches the same route. */
  readonly ignoreTrailingSlash: boolean
}

/** The active rules at one moment, compiled. Immutable: an edit makes a new set. */
export class RuleSet {
  /** By priority, highest first, then by name: the order in which they are tried. */
  readonly rules: readonly Rule[]
  readonly #patterns: RE2Set
  readonly #bothSlashForms: boolean
  readonly #remembered = new Map<string, Rule | undefined>()

  constructor(rules: Iterable<Rule>, { caseSensitive, ignoreTrailingSlash }: PathOptions) {
    this.rules = [...rules].sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1))
    this.#patterns = new RE2Set(RE2Set.UNANCHORED, caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE)
    for (const { pathPattern } of this.rules) this.#patterns.add(pathPattern)
    this.#patterns.compile()
    this.#bothSlashForms = ignoreTrailingSlash
  }

  /** The first rule for a path, as the router sees it, and a method, in upper case. */
  match(path: string, method: string): Rule | undefined {
    if (this.rules.length === 0) return undefined
    const question = `${method} ${path}`
    const known = this.#remembered.get(question)
    if (known !== undefined || this.#remembered.has(question)) return known
    const rule = this.#search(path, method)
    if (path.length <= REMEMBERED_PATH_LENGTH) {
      if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
      this.#remembered.set(question, rule)
    }
    return rule
  }

  #search(path: string, method: string): Rule | undefined {
    let places = this.#patterns.match(path)
    if (this.#bothSlashForms && path.length > 1) {
      const otherForm = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
      places = [...places, ...this.#patterns.match(otherForm)]
    }
    let first: number | undefined
    for (const place of places) {
      if (first !== undefined && place > first) continue
      if (coversMethod(this.rules[place], method)) first = place
    }
    return first === undefined ? undefined : this.rules[first]
  }
}

/** Fastify answers HEAD with the handler of GET, so a rule for GET covers it too. */
function coversMethod(rule: Rule | undefined, method: string): boolean {
  if (rule === undefined) return false
  const { methods } = rule
  return methods[0] === 'ALL' || methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))
}
