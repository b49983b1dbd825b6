import { countsByUser } from '../clients/client-kind.js'
import { rememberClients } from '../ground/remember.js'
import type { PathOptions } from './patterns/path-patterns.js'
import { lowerCasedPattern } from './patterns/pattern.js'
import { PatternIndex } from './patterns/pattern-index.js'
import { ANY_WORK, type RequestWork, SHORT_LENGTH } from './patterns/work.js'
import type { Rule } from './rule.js'
import { isInForce, isInRange, steadyRangeAround } from './validity.js'

/** The bytes that a rule takes in a list that is remembered. */
const REFERENCE_BYTES = 8

/** Finds something among the rules in force, for one method. */
type Search<Found> = (path: string, nowMs: number, request: RequestWork) => Found

/** The active rules at one moment. Immutable: an edit creates a new set. */
export class RuleSet {
  /** The rules in the order in which they are tried: by priority, highest first, then by name. */
  readonly rules: readonly Rule[]
  readonly size: number
  /** Whether any rule needs to know users. */
  readonly needUsers: boolean
  readonly #patterns: PatternIndex
  readonly #bothSlashForms: boolean
  /** The rules that begin or end: mostly none. */
  readonly #timed: readonly Rule[]
  readonly #searches = new Map<string, Search<Rule | null | undefined>>()
  readonly #candidateSearches = new Map<string, Search<readonly Rule[] | null>>()

  /** @param patterns the compiled patterns of these rules, which must be in order then; compiled here by default */
  constructor(rules: readonly Rule[], { caseSensitive, ignoreTrailingSlash }: PathOptions, patterns?: PatternIndex) {
    this.rules = patterns === undefined ? inOrder(rules) : rules
    this.#patterns = patterns ?? PatternIndex.create(patternsFor(this.rules, caseSensitive), caseSensitive)
    this.#bothSlashForms = ignoreTrailingSlash
    this.size = this.rules.length
    this.needUsers = this.rules.some(({ client, condition }) => condition?.readsUser || countsByUser(client))
    this.#timed = this.rules.filter(({ startsAtMs, endsAtMs }) => startsAtMs !== null || endsAtMs !== null)
  }

  /**
   * Creates a compiled set without blocking the event loop.
   *
   * @param previous a set of the same router, whose compiled patterns are used again
   */
  static async compile(rules: Iterable<Rule>, options: PathOptions, previous?: RuleSet): Promise<RuleSet> {
    const others = new Set(rules)
    // Sorting what is in order already takes a fraction of the time.
    const kept = previous === undefined ? [] : previous.rules.filter((rule) => others.delete(rule))
    const ordered = inOrder([...kept, ...others])
    const { caseSensitive } = options
    // An edit mostly changes no pattern.
    if (previous !== undefined && haveSamePatterns(ordered, previous.rules)) {
      return new RuleSet(ordered, options, previous.#patterns)
    }
    const compiled = previous === undefined ? undefined : previous.#patterns
    const patterns = await PatternIndex.compile(patternsFor(ordered, caseSensitive), caseSensitive, compiled)
    return new RuleSet(ordered, options, patterns)
  }

  /** Returns the rules that are in force at a moment, in order. */
  inForce(nowMs: number): readonly Rule[] {
    return this.#timed.length === 0 ? this.rules : this.rules.filter((rule) => isInForce(rule, nowMs))
  }

  /**
   * Returns the first rule in force for a path, as the router sees it, and a method, in upper case, whatever its
   * condition; null where the path is too long to be searched for all patterns that may be the first.
   *
   * @param request takes the work of a long path
   */
  match(path: string, method: string, nowMs: number, request: RequestWork = { work: 0 }): Rule | null | undefined {
    let search = this.#searches.get(method)
    if (search === undefined) {
      search = this.#remembering((each, atMs, work) => this.#search(each, method, atMs, work))
      this.#searches.set(method, search)
    }
    return search(path, nowMs, request)
  }

  /**
   * Returns the rules in force that may decide, in their order: those with a condition, to the first without one. For
   * paths whose first rule has a condition; null as for `match`.
   */
  candidates(path: string, method: string, nowMs: number, request: RequestWork = { work: 0 }): readonly Rule[] | null {
    let search = this.#candidateSearches.get(method)
    if (search === undefined) {
      search = this.#remembering(
        (each, atMs, work) => this.#searchAll(each, method, atMs, work),
        (rules) => REFERENCE_BYTES * (rules?.length ?? 0),
      )
      this.#candidateSearches.set(method, search)
    }
    return search(path, nowMs, request)
  }

  /**
   * Returns all rules whose pattern matches a path, whatever else they ask of a request; null where the path is too long
   * to be searched for all of them.
   */
  matching(path: string, request: RequestWork): ReadonlySet<Rule> | null {
    const found = new Set<Rule>()
    const isSearched = this.#visit(
      path,
      () => true,
      request,
      (index) => {
        const rule = this.rules[index]
        if (rule !== undefined) found.add(rule)
      },
    )
    return isSearched ? found : null
  }

  /**
   * Creates a search that remembers what it found. It starts afresh where a rule begins or ends; sets without such rules
   * do not look at the time.
   */
  #remembering<Found>(find: Search<Found>, bytes?: (found: Found) => number): Search<Found> {
    const searchAt = (atMs: number) => rememberClients((path) => find(path, atMs, ANY_WORK), bytes)
    let search = searchAt(Number.NEGATIVE_INFINITY)
    const isTimed = this.#timed.length > 0
    let range = steadyRangeAround(this.#timed, Number.NEGATIVE_INFINITY)
    return (path, nowMs, request) => {
      if (path.length > SHORT_LENGTH) return find(path, nowMs, request)
      if (isTimed && !isInRange(range, nowMs)) {
        range = steadyRangeAround(this.#timed, nowMs)
        search = searchAt(nowMs)
      }
      return search(path)
    }
  }

  #search(path: string, method: string, nowMs: number, request: RequestWork): Rule | null | undefined {
    let first = Number.POSITIVE_INFINITY
    const precedes = (index: number) => index < first && applies(this.rules[index], method, nowMs)
    const isSearched = this.#visit(path, precedes, request, (index) => {
      first = index
    })
    return isSearched ? this.rules[first] : null
  }

  #searchAll(path: string, method: string, nowMs: number, request: RequestWork): readonly Rule[] | null {
    let last = Number.POSITIVE_INFINITY
    const indexes = new Set<number>()
    const precedes = (index: number) => index < last && applies(this.rules[index], method, nowMs)
    const isSearched = this.#visit(path, precedes, request, (index) => {
      if (this.rules[index]?.condition === undefined) last = index
      indexes.add(index)
    })
    if (!isSearched) return null
    const sorted = [...indexes].filter((index) => index <= last).sort((a, b) => a - b)
    return sorted.flatMap((index) => this.rules[index] ?? [])
  }

  /**
   * Visits the rules whose pattern matches a path.
   *
   * @returns false where the path is too long to be searched for all that matter
   */
  #visit(
    path: string,
    matters: (index: number) => boolean,
    request: RequestWork,
    found: (index: number) => void,
  ): boolean {
    const consider = (index: number) => {
      if (matters(index)) found(index)
    }
    if (!this.#patterns.match(path, consider, matters, request)) return false
    if (!this.#bothSlashForms || path.length < 2) return true
    return this.#patterns.match(path.endsWith('/') ? path.slice(0, -1) : `${path}/`, consider, matters, request)
  }
}

function inOrder(rules: Iterable<Rule>): Rule[] {
  return [...rules].sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1))
}

function haveSamePatterns(rules: readonly Rule[], others: readonly Rule[]): boolean {
  return (
    rules.length === others.length &&
    rules.every(({ pathPattern }, index) => pathPattern === others[index]?.pathPattern)
  )
}

function patternsFor(rules: readonly Rule[], caseSensitive: boolean): string[] {
  return rules.map(({ pathPattern }) => (caseSensitive ? pathPattern : lowerCasedPattern(pathPattern)))
}

/** Fastify answers HEAD with the handler of GET, so a rule for GET covers it too. */
export function appliesToMethod({ methods }: Rule, method: string): boolean {
  return methods[0] === 'ALL' || methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))
}

function applies(rule: Rule | undefined, method: string, nowMs: number): boolean {
  return rule !== undefined && isInForce(rule, nowMs) && appliesToMethod(rule, method)
}
