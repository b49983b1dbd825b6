import type { PathOptions } from '../patterns/path-patterns.js'
import { lowerCasedPattern, SHORT_PATH_LENGTH } from '../patterns/pattern.js'
import { PatternIndex } from '../patterns/pattern-index.js'
import { remember } from '../remember.js'
import type { Rule } from './rule.js'
import { isInForce, isInRange, steadyRangeAround } from './validity.js'

/** How many short paths keep their result, for each method. */
const REMEMBERED = 4_096

/** The result of `match` for one method. */
type Search = (path: string, nowMs: number) => Rule | null | undefined

/** The active rules at one moment. Immutable: an edit creates a new set. */
export class RuleSet {
  /** The rules in the order in which they are tried: by priority, highest first, then by name. */
  readonly rules: readonly Rule[]
  readonly #patterns: PatternIndex
  readonly #bothSlashForms: boolean
  /** The rules that begin or end: mostly none. */
  readonly #timed: readonly Rule[]
  readonly #searches = new Map<string, Search>()

  /** @param patterns the compiled patterns of these rules, which must be in order then; compiled here by default */
  constructor(rules: readonly Rule[], { caseSensitive, ignoreTrailingSlash }: PathOptions, patterns?: PatternIndex) {
    this.rules = patterns === undefined ? inOrder(rules) : rules
    this.#patterns = patterns ?? PatternIndex.create(patternsFor(this.rules, caseSensitive), caseSensitive)
    this.#bothSlashForms = ignoreTrailingSlash
    this.#timed = this.rules.filter(({ startsAtMs, endsAtMs }) => startsAtMs !== null || endsAtMs !== null)
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

  /** Returns the rules that are in force at a moment, in order. */
  inForce(nowMs: number): readonly Rule[] {
    return this.#timed.length === 0 ? this.rules : this.rules.filter((rule) => isInForce(rule, nowMs))
  }

  /**
   * Returns the first rule in force for a path, as the router sees it, and a method, in upper case; null where the path
   * is too long to be searched for all patterns that may be the first.
   */
  match(path: string, method: string, nowMs: number): Rule | null | undefined {
    let search = this.#searches.get(method)
    if (search === undefined) {
      search = this.#timed.length === 0 ? this.#searchAt(method, nowMs) : this.#timedSearch(method)
      this.#searches.set(method, search)
    }
    return search(path, nowMs)
  }

  /** Creates a search among the rules in force at a moment. */
  #searchAt(method: string, nowMs: number): Search {
    return remember(REMEMBERED, (path) => this.#search(path, method, nowMs), SHORT_PATH_LENGTH)
  }

  /** Creates a search that starts afresh where a rule begins or ends, so that other sets do not look at the time. */
  #timedSearch(method: string): Search {
    let range = steadyRangeAround(this.#timed, Number.NEGATIVE_INFINITY)
    let search = this.#searchAt(method, Number.NEGATIVE_INFINITY)
    return (path, nowMs) => {
      if (!isInRange(range, nowMs)) {
        range = steadyRangeAround(this.#timed, nowMs)
        search = this.#searchAt(method, nowMs)
      }
      return search(path, nowMs)
    }
  }

  #search(path: string, method: string, nowMs: number): Rule | null | undefined {
    let first = Number.POSITIVE_INFINITY
    const precedes = (place: number) => place < first && applies(this.rules[place], method, nowMs)
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
function applies(rule: Rule | undefined, method: string, nowMs: number): boolean {
  if (rule === undefined || !isInForce(rule, nowMs)) return false
  const { methods } = rule
  return methods[0] === 'ALL' || methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))
}
