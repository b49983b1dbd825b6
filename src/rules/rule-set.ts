import type { PathOptions } from '../patterns/path-patterns.js'
import { lowerCasedPattern, SHORT_PATH_LENGTH } from '../patterns/pattern.js'
import { PatternIndex } from '../patterns/pattern-index.js'
import { remember } from '../remember.js'
import type { Rule } from './rule.js'

/** How many short paths keep their result, for each method. */
const REMEMBERED = 4_096

/** The active rules at one moment. Immutable: an edit creates a new set. */
export class RuleSet {
  /** The rules in the order in which they are tried: by priority, highest first, then by name. */
  readonly rules: readonly Rule[]
  readonly #patterns: PatternIndex
  readonly #bothSlashForms: boolean
  readonly #remembered = new Map<string, (path: string) => Rule | null | undefined>()

  /** @param patterns the compiled patterns of these rules, which must be in order then; compiled here by default */
  constructor(rules: readonly Rule[], { caseSensitive, ignoreTrailingSlash }: PathOptions, patterns?: PatternIndex) {
    this.rules = patterns === undefined ? inOrder(rules) : rules
    this.#patterns = patterns ?? PatternIndex.create(patternsFor(this.rules, caseSensitive), caseSensitive)
    this.#bothSlashForms = ignoreTrailingSlash
  }

  /**
   * Creates a compiled set without blocking the event loop.
   *
   * @param previous a set whose compiled patterns are used again
   */
  static async compile(rules: Iterable<Rule>, options: PathOptions, previous?: RuleSet): Promise<RuleSet> {
    const ordered = inOrder(rules)
    const compiled = previous === undefined ? undefined : previous.#patterns
    const { caseSensitive } = options
    const patterns = await PatternIndex.compile(patternsFor(ordered, caseSensitive), caseSensitive, compiled)
    return new RuleSet(ordered, options, patterns)
  }

  get size(): number {
    return this.rules.length
  }

  /**
   * Returns the first rule for a path, as the router sees it, and a method, in upper case; null where the path is too
   * long to be searched for all patterns that may be the first.
   */
  match(path: string, method: string): Rule | null | undefined {
    let search = this.#remembered.get(method)
    if (search === undefined) {
      search = remember(REMEMBERED, (each) => this.#search(each, method), SHORT_PATH_LENGTH)
      this.#remembered.set(method, search)
    }
    return search(path)
  }

  #search(path: string, method: string): Rule | null | undefined {
    let first = Number.POSITIVE_INFINITY
    const precedes = (place: number) => place < first && coversMethod(this.rules[place], method)
    const consider = (place: number) => {
      if (precedes(place)) first = place
    }
    if (!this.#patterns.match(path, consider, precedes)) return null
    if (this.#bothSlashForms && path.length > 1) {
      const otherForm = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
      if (!this.#patterns.match(otherForm, consider, precedes)) return null
    }
    return this.rules[first]
  }
}

function inOrder(rules: Iterable<Rule>): Rule[] {
  return [...rules].sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1))
}

function patternsFor(rules: readonly Rule[], caseSensitive: boolean): string[] {
  return rules.map(({ pathPattern }) => (caseSensitive ? pathPattern : lowerCasedPattern(pathPattern)))
}

/** Fastify answers HEAD with the handler of GET, so a rule for GET covers it too. */
function coversMethod(rule: Rule | undefined, method: string): boolean {
  if (rule === undefined) return false
  const { methods } = rule
  return methods[0] === 'ALL' || methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))
}
