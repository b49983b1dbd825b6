import { RE2JS, RE2Set } from 're2js'
import { compiledPattern, foldedPath, requiredPrefix, requiredTexts } from './pattern.js'
import { PrefixTree } from './prefix-tree.js'
import { Slices } from './slices.js'

/** How many patterns one automaton has at most: its cost on a path that never came before grows with their number. */
const GROUP_SIZE = 64
/** So few are compiled one by one, when a path asks for them; more beforehand, so that no request waits for it. */
const FEW = 4
/** The part of a path by which patterns are found that begin alike, or anywhere. */
const PART_LENGTH = 4
/** In a longer path too many parts could be somebody's. */
const MAX_PATH_IN_PARTS = 512

/** Answers the indices of the patterns that match. */
interface Automaton {
  match(path: string): readonly number[]
}

/** Patterns by their place in the set, compiled together. */
interface Group {
  readonly places: number[]
  readonly patterns: string[]
  /** What comes after the literal beginning, of those that can be matched without it. */
  readonly rests: (string | null)[]
  automaton: Automaton | undefined
}

interface Other {
  readonly place: number
  readonly pattern: string
  readonly rest: string | null
}

/** The patterns that begin with the same literal text. */
interface Bucket {
  /** Places of patterns that say no more than this text, or no more than that the path is it. */
  readonly prefixes: number[]
  readonly wholes: number[]
  readonly length: number
  readonly others: Other[]
  /**
   * All others. Where there are many they are for long paths alone, and compiled beforehand all the same: a long path
   * would wait for thousands of them. What is in `parts` is seldom compiled twice, since few have the same part.
   */
  groups: readonly Group[]
  /** Where there are many, for paths that are not too long: those with a part that a path must have, by that part … */
  parts: ReadonlyMap<string, readonly Group[]>
  /** … and those without. */
  rest: readonly Group[]
}

/**
 * All patterns of a rule set, searched together. Most begin with a literal path: a tree finds those that can match, so
 * that thousands of others cost nothing. Many that begin alike, or do not say how a path begins, are found by a few
 * characters that a path must have. What is left goes through automata of several patterns each (RE2 sets).
 */
export class PatternIndex {
  readonly #exact = new PrefixTree<Bucket>()
  readonly #folded = new PrefixTree<Bucket>()
  readonly #buckets: Bucket[] = []
  /** By which part a pattern is found among many, null for none. */
  readonly #partOf = new Map<string, string | null>()
  readonly #anywhere: Bucket
  readonly #flags: number
  readonly #caseSensitive: boolean
  #hasFolded = false
  #size = 0

  private constructor(caseSensitive: boolean) {
    this.#caseSensitive = caseSensitive
    this.#flags = caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE
    this.#anywhere = this.#bucket(0)
  }

  /**
   * An index that compiles when it is asked.
   *
   * @param patterns in the order of their places
   */
  static of(patterns: readonly string[], caseSensitive: boolean): PatternIndex {
    const index = new PatternIndex(caseSensitive)
    for (const _step of index.#build(patterns, undefined));
    return index
  }

  /**
   * An index that has compiled what a request would have to wait for, made a slice at a time.
   *
   * @param previous what it has compiled is taken over
   */
  static async compile(
    patterns: readonly string[],
    caseSensitive: boolean,
    previous: PatternIndex | undefined,
  ): Promise<PatternIndex> {
    const slices = new Slices()
    const index = new PatternIndex(caseSensitive)
    const known = previous !== undefined && previous.#flags === index.#flags ? previous : undefined
    for (const _step of index.#buildCompiled(patterns, known)) if (slices.over()) await slices.pause()
    return index
  }

  /** In steps of well under a millisecond, most of them; so are the generators below. */
  *#buildCompiled(patterns: readonly string[], previous: PatternIndex | undefined): Generator<void> {
    yield* this.#build(patterns, previous)
    const known = new Map<string, Automaton>()
    if (previous !== undefined) yield* previous.#noteAutomata(known)
    for (const bucket of this.#buckets) {
      for (const group of groupsOf(bucket)) {
        group.automaton = known.get(keyOf(group))
        if (group.patterns.length > FEW) group.automaton ??= this.#compiled(group, bucket.length)
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
    const place = this.#size++
    const required = requiredPrefix(pattern, this.#caseSensitive)
    if (required === undefined) {
      this.#anywhere.others.push({ place, pattern, rest: null })
      return
    }
    const { prefix, folded, exactly, rest } = required
    const bucket = (folded ? this.#folded : this.#exact).at(prefix, () => this.#bucket(prefix.length))
    if (exactly === 'prefix') bucket.prefixes.push(place)
    else if (exactly === 'whole') bucket.wholes.push(place)
    else bucket.others.push({ place, pattern, rest })
    this.#hasFolded ||= folded
  }

  /** Tells the places of all patterns that match a path, in no order. */
  match(path: string, found: (place: number) => void): void {
    const search = (bucket: Bucket) => this.#search(bucket, path, found)
    search(this.#anywhere)
    this.#exact.visit(path, search)
    if (this.#hasFolded) this.#folded.visit(foldedPath(path), search)
  }

  #search(bucket: Bucket, path: string, found: (place: number) => void): void {
    for (const place of bucket.prefixes) found(place)
    if (path.length === bucket.length) for (const place of bucket.wholes) found(place)
    if (bucket.parts.size === 0 || path.length > MAX_PATH_IN_PARTS) {
      this.#try(bucket, bucket.groups, path, found)
      return
    }
    this.#try(bucket, bucket.rest, path, found)
    const last = path.length - PART_LENGTH
    for (let start = 0; start <= last; start++) {
      const groups = bucket.parts.get(path.slice(start, start + PART_LENGTH))
      if (groups !== undefined) this.#try(bucket, groups, path, found)
    }
  }

  #try({ length }: Bucket, groups: readonly Group[], path: string, found: (place: number) => void): void {
    for (const group of groups) {
      group.automaton ??= this.#compiled(group, length)
      for (const index of group.automaton.match(path)) found(group.places[index] ?? Number.POSITIVE_INFINITY)
    }
  }

  *#group(bucket: Bucket, previous: PatternIndex | undefined): Generator<void> {
    bucket.groups = yield* grouped(bucket.others)
    if (bucket.others.length <= FEW) return
    yield* this.#chooseParts(bucket.others, previous)
    const byPart = new Map<string, Other[]>()
    const rest: Other[] = []
    for (const other of bucket.others) {
      const part = this.#partOf.get(other.pattern)
      const alike = typeof part === 'string' ? byPart.get(part) : rest
      if (alike !== undefined) alike.push(other)
      else if (typeof part === 'string') byPart.set(part, [other])
      yield
    }
    const parts = new Map<string, readonly Group[]>()
    for (const [part, others] of byPart) parts.set(part, yield* grouped(others))
    bucket.parts = parts
    bucket.rest = yield* grouped(rest)
  }

  /** @param previous whose choices stand: they are costly, and what goes together stays together, and compiled */
  *#chooseParts(others: readonly Other[], previous: PatternIndex | undefined): Generator<void> {
    const uses = new Map<string, number>()
    const choose = (pattern: string, part: string | null) => {
      this.#partOf.set(pattern, part)
      if (part !== null) uses.set(part, (uses.get(part) ?? 0) + 1)
    }
    if (previous !== undefined) {
      for (const { pattern } of others) {
        const known = previous.#partOf.get(pattern)
        if (known !== undefined) choose(pattern, known)
        yield
      }
    }
    for (const { pattern } of others) {
      if (this.#partOf.has(pattern)) continue
      choose(pattern, leastUsed(requiredTexts(pattern, this.#caseSensitive).flatMap(partsOf), uses))
      yield
    }
  }

  #bucket(length: number): Bucket {
    const bucket: Bucket = { prefixes: [], wholes: [], length, others: [], groups: [], parts: new Map(), rest: [] }
    this.#buckets.push(bucket)
    return bucket
  }

  #compiled({ patterns, rests }: Group, prefixLength: number): Automaton {
    if (patterns.length <= FEW) {
      return oneByOne(
        patterns.map((pattern, index) => this.#alone(rests[index] ?? pattern)),
        rests.map((rest) => (rest === null ? 0 : prefixLength)),
      )
    }
    const automaton = new RE2Set(RE2Set.UNANCHORED, this.#flags)
    for (const pattern of patterns) automaton.add(pattern)
    automaton.compile()
    return automaton
  }

  #alone(pattern: string): RE2JS {
    return this.#caseSensitive ? compiledPattern(pattern) : RE2JS.compile(pattern, this.#flags)
  }

  *#noteAutomata(automata: Map<string, Automaton>): Generator<void> {
    for (const bucket of this.#buckets) {
      for (const group of groupsOf(bucket)) {
        if (group.automaton !== undefined) automata.set(keyOf(group), group.automaton)
        yield
      }
    }
  }
}

function* groupsOf({ groups, parts, rest }: Bucket): Generator<Group> {
  yield* groups
  for (const ofPart of parts.values()) yield* ofPart
  yield* rest
}

function partsOf(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - PART_LENGTH + 1) }, (_, start) =>
    text.slice(start, start + PART_LENGTH),
  )
}

function leastUsed(parts: readonly string[], uses: ReadonlyMap<string, number>): string | null {
  let best: string | null = null
  let fewest = Number.POSITIVE_INFINITY
  for (const part of parts) {
    const count = uses.get(part) ?? 0
    if (count >= fewest) continue
    best = part
    fewest = count
  }
  return best
}

/** @param starts where in a path each pattern is searched for */
function oneByOne(patterns: readonly RE2JS[], starts: readonly number[]): Automaton {
  return {
    match(path) {
      const indices: number[] = []
      for (const [index, pattern] of patterns.entries()) {
        if (pattern.test(path.slice(starts[index]))) indices.push(index)
      }
      return indices
    },
  }
}

/**
 * Spreads patterns over groups by their text: one more or less changes its own group, and leaves the others as they
 * were, which need not be compiled again.
 */
function* grouped(patterns: readonly Other[]): Generator<void, Group[]> {
  let count = 1
  while (patterns.length / count > GROUP_SIZE) count *= 2
  const groups = Array.from(
    { length: count },
    (): Group => ({ places: [], patterns: [], rests: [], automaton: undefined }),
  )
  for (const { place, pattern, rest } of patterns) {
    const group = groups[hashOf(pattern) % count]
    group?.places.push(place)
    group?.patterns.push(pattern)
    group?.rests.push(rest)
    yield
  }
  return groups.filter((group) => group.patterns.length > 0)
}

/** No pattern has a NUL. */
function keyOf({ patterns }: Group): string {
  return patterns.join('\0')
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 2_166_136_261
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 16_777_619) >>> 0
  return hash
}
