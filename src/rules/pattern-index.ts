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
  /** All others. */
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
    for (const pattern of patterns) index.#add(pattern)
    index.#group()
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
    for (const pattern of patterns) {
      index.#add(pattern)
      if (slices.over()) await slices.pause()
    }
    index.#group()
    const known = previous !== undefined && previous.#flags === index.#flags ? previous.#automata() : undefined
    for (const bucket of index.#buckets) {
      for (const group of groupsOf(bucket)) {
        group.automaton = known?.get(keyOf(group))
        if (group.patterns.length > FEW) group.automaton ??= index.#compiled(group, bucket.length)
        if (slices.over()) await slices.pause()
      }
    }
    return index
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

  #group(): void {
    for (const bucket of this.#buckets) this.#groupBucket(bucket)
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

  #groupBucket(bucket: Bucket): void {
    bucket.groups = grouped(bucket.others)
    if (bucket.others.length <= FEW) return
    const byPart = new Map<string, Other[]>()
    const rest: Other[] = []
    for (const other of bucket.others) {
      const parts = requiredTexts(other.pattern, this.#caseSensitive).flatMap(partsOf)
      // The one that the fewest others are found by.
      const part = parts.reduce<string | undefined>(
        (best, each) =>
          best === undefined || (byPart.get(each)?.length ?? 0) < (byPart.get(best)?.length ?? 0) ? each : best,
        undefined,
      )
      if (part === undefined) rest.push(other)
      else if (byPart.has(part)) byPart.get(part)?.push(other)
      else byPart.set(part, [other])
    }
    bucket.parts = new Map([...byPart].map(([part, others]) => [part, grouped(others)]))
    bucket.rest = grouped(rest)
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

  #automata(): Map<string, Automaton> {
    const automata = new Map<string, Automaton>()
    for (const bucket of this.#buckets) {
      for (const group of groupsOf(bucket))
        if (group.automaton !== undefined) automata.set(keyOf(group), group.automaton)
    }
    return automata
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
function grouped(patterns: readonly Other[]): Group[] {
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
