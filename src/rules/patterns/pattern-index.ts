import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { patternSize } from './pattern.js'
import { FRAGMENT_LENGTH, PatternFragments } from './pattern-fragments.js'
import {
  type Automaton,
  compileGroup,
  FEW,
  groupPatterns,
  type IndexedPattern,
  type PatternGroup,
  toGroupKey,
} from './pattern-group.js'
import { PrefixTree } from './prefix-tree.js'
import { foldedPath, requiredPrefix } from './required-text.js'
import { type RequestWork, SHORT_PATH_LENGTH, takeWork } from './work.js'

/** The patterns that begin with the same literal text. */
interface Bucket {
  /** Indexes of the patterns that require only this beginning, and of those that require the path to be this text. */
  readonly prefixes: number[]
  readonly wholes: number[]
  readonly length: number
  readonly others: IndexedPattern[]
  /** The groups with a fragment that a path must contain, by that fragment, where there are many others. */
  fragments: ReadonlyMap<string, readonly PatternGroup[]>
  /** All others. */
  rest: readonly PatternGroup[]
}

/**
 * All patterns of a rule set, searched together. Most begin with a literal path: a tree finds those that can match, so
 * that thousands of others cost nothing. Where many begin alike, or have no literal beginning, they are found by a few
 * characters that a path must contain. The rest goes through automata of several patterns each (RE2 sets).
 */
export class PatternIndex {
  readonly #exact = new PrefixTree<Bucket>()
  readonly #folded = new PrefixTree<Bucket>()
  readonly #buckets: Bucket[] = []
  readonly #fragments = new PatternFragments()
  readonly #anywhere: Bucket
  readonly #caseSensitive: boolean
  #hasFolded = false
  #size = 0

  private constructor(caseSensitive: boolean) {
    this.#caseSensitive = caseSensitive
    this.#anywhere = this.#bucket(0)
  }

  /**
   * Creates an index that compiles on demand.
   *
   * @param patterns in the order of their indexes
   */
  static create(patterns: readonly string[], caseSensitive: boolean): PatternIndex {
    const index = new PatternIndex(caseSensitive)
    for (const _step of index.#build(patterns, undefined));
    return index
  }

  /**
   * Creates an index, a slice at a time, with everything compiled that a request would have to wait for.
   *
   * @param previous an index whose compiled automata are used again
   */
  static async compile(
    patterns: readonly string[],
    caseSensitive: boolean,
    previous: PatternIndex | undefined,
  ): Promise<PatternIndex> {
    const slices = new CooperativeYield()
    const index = new PatternIndex(caseSensitive)
    const reusable = previous !== undefined && previous.#caseSensitive === caseSensitive ? previous : undefined
    for (const _step of index.#buildCompiled(patterns, reusable)) if (slices.over()) await slices.pause()
    return index
  }

  /** Builds in steps, most of them well under a millisecond; so do the generators below. */
  *#buildCompiled(patterns: readonly string[], previous: PatternIndex | undefined): Generator<void> {
    yield* this.#build(patterns, previous)
    const automata = new Map<string, Automaton>()
    if (previous !== undefined) yield* previous.#noteAutomata(automata)
    for (const bucket of this.#buckets) {
      for (const group of groupsFor(bucket)) {
        group.automaton = automata.get(toGroupKey(group))
        if (group.patterns.length > FEW) group.automaton ??= compileGroup(group, bucket.length, this.#caseSensitive)
        yield
      }
    }
  }

  *#build(patterns: readonly string[], previous: PatternIndex | undefined): Generator<void> {
    for (const pattern of patterns) {
      this.#add(pattern)
      yield
    }
    for (const bucket of this.#buckets) yield* this.#group(bucket, previous)
  }

  #add(pattern: string): void {
    const index = this.#size++
    const size = patternSize(pattern)
    const required = requiredPrefix(pattern, this.#caseSensitive)
    if (required === undefined) {
      this.#anywhere.others.push({ index, pattern, size, rest: null })
      return
    }
    const { prefix, folded, exactly, rest } = required
    const bucket = (folded ? this.#folded : this.#exact).at(prefix, () => this.#bucket(prefix.length))
    if (exactly === 'prefix') bucket.prefixes.push(index)
    else if (exactly === 'whole') bucket.wholes.push(index)
    else bucket.others.push({ index, pattern, size, rest })
    this.#hasFolded ||= folded
  }

  /**
   * Finds the patterns that match a path, unless that takes too much work.
   *
   * @param found called with the indexes of those that match, in no order
   * @param matters returns whether the pattern of an index can change the result
   * @param request takes the work of a long path
   * @returns false where patterns that matter were not searched for
   */
  match(
    path: string,
    found: (index: number) => void,
    matters: (index: number) => boolean,
    request: RequestWork = { work: 0 },
  ): boolean {
    const search = (group: PatternGroup, { length }: Bucket) => {
      group.automaton ??= compileGroup(group, length, this.#caseSensitive)
      for (const index of group.automaton.match(path)) found(group.patterns[index]?.index ?? Number.POSITIVE_INFINITY)
    }
    if (path.length <= SHORT_PATH_LENGTH) {
      this.#visit(path, found, search)
      return true
    }
    const groups = new Map<PatternGroup, Bucket>()
    this.#visit(path, found, (group, bucket) => groups.set(group, bucket))
    let size = 0
    for (const group of groups.keys()) {
      if (group.patterns.some(({ index }) => matters(index))) size += group.size
      else groups.delete(group)
    }
    if (!takeWork(request, size * path.length)) return false
    for (const [group, bucket] of groups) search(group, bucket)
    return true
  }

  /** Finds the patterns that need no search, and visits the groups of all others that can match a path. */
  #visit(path: string, found: (index: number) => void, visitor: (group: PatternGroup, bucket: Bucket) => void): void {
    const visit = (bucket: Bucket) => {
      for (const index of bucket.prefixes) found(index)
      if (path.length === bucket.length) for (const index of bucket.wholes) found(index)
      for (const group of bucket.rest) visitor(group, bucket)
      if (bucket.fragments.size > 0) visitFragments(path, bucket.fragments, (group) => visitor(group, bucket))
    }
    visit(this.#anywhere)
    this.#exact.visit(path, visit)
    if (this.#hasFolded) this.#folded.visit(foldedPath(path), visit)
  }

  *#group(bucket: Bucket, previous: PatternIndex | undefined): Generator<void> {
    if (bucket.others.length <= FEW) {
      bucket.rest = yield* groupPatterns(bucket.others)
      return
    }
    const chosenBefore = previous === undefined ? undefined : previous.#fragments
    yield* this.#fragments.choose(bucket.others, this.#caseSensitive, chosenBefore)
    const byFragment = new Map<string, IndexedPattern[]>()
    const rest: IndexedPattern[] = []
    for (const other of bucket.others) {
      const fragment = this.#fragments.fragmentFor(other.pattern)
      const alike = fragment === null ? rest : byFragment.get(fragment)
      if (alike !== undefined) alike.push(other)
      else if (fragment !== null) byFragment.set(fragment, [other])
      yield
    }
    const fragments = new Map<string, readonly PatternGroup[]>()
    for (const [fragment, others] of byFragment) fragments.set(fragment, yield* groupPatterns(others))
    bucket.fragments = fragments
    bucket.rest = yield* groupPatterns(rest)
  }

  #bucket(length: number): Bucket {
    const bucket: Bucket = { prefixes: [], wholes: [], length, others: [], fragments: new Map(), rest: [] }
    this.#buckets.push(bucket)
    return bucket
  }

  *#noteAutomata(automata: Map<string, Automaton>): Generator<void> {
    for (const bucket of this.#buckets) {
      for (const group of groupsFor(bucket)) {
        if (group.automaton !== undefined) automata.set(toGroupKey(group), group.automaton)
        yield
      }
    }
  }
}

/** Visits the groups of each fragment that a path contains, once. */
function visitFragments(
  path: string,
  fragments: ReadonlyMap<string, readonly PatternGroup[]>,
  visitor: (group: PatternGroup) => void,
): void {
  let visited: Set<readonly PatternGroup[]> | undefined
  const last = path.length - FRAGMENT_LENGTH
  for (let start = 0; start <= last; start++) {
    const groups = fragments.get(path.slice(start, start + FRAGMENT_LENGTH))
    if (groups === undefined || visited?.has(groups)) continue
    visited ??= new Set()
    visited.add(groups)
    for (const group of groups) visitor(group)
  }
}

function* groupsFor({ fragments, rest }: Bucket): Generator<PatternGroup> {
  for (const ofFragment of fragments.values()) yield* ofFragment
  yield* rest
}
