/** Patterns that are searched for together. */
import type { RE2Set } from 're2js'
import { compiledPattern, createAutomaton, SHORT_PATH_LENGTH } from './pattern.js'

/** How many patterns one automaton has at most: its cost on a path that never came before grows with their number. */
const GROUP_SIZE = 64
/** Larger patterns, by their instructions, stay by themselves: an automaton of several would have too many states. */
const MAX_GROUPED_SIZE = 64
/** So few are compiled one by one, when a path asks for them; more beforehand, so that no request waits for it. */
export const FEW = 4

/** A pattern with its place in the set. */
export interface PlacedPattern {
  readonly place: number
  readonly pattern: string
  /** How many instructions it compiles to. */
  readonly size: number
  /** What comes after the literal beginning, where that can be matched without it. */
  readonly rest: string | null
}

/** Answers the indices of the patterns of a group that match. */
export interface Automaton {
  match(path: string): readonly number[]
}

export interface Group {
  readonly patterns: PlacedPattern[]
  /** How many instructions they have together. */
  size: number
  /** Undefined until it is compiled. */
  automaton: Automaton | undefined
}

/**
 * Spreads patterns over groups by their text: one more or less changes its own group, and leaves the others as they
 * were, which need not be compiled again. In steps of well under a millisecond.
 */
export function* grouped(patterns: readonly PlacedPattern[]): Generator<void, Group[]> {
  let count = 1
  while (patterns.length / count > GROUP_SIZE) count *= 2
  const groups = Array.from({ length: count }, emptyGroup)
  for (const placed of patterns) {
    const place = placed.size > MAX_GROUPED_SIZE ? groups.push(emptyGroup()) - 1 : hashOf(placed.pattern) % count
    const group = groups[place]
    group?.patterns.push(placed)
    if (group !== undefined) group.size += placed.size
    yield
  }
  return groups.filter((group) => group.patterns.length > 0)
}

function emptyGroup(): Group {
  return { patterns: [], size: 0, automaton: undefined }
}

/** Groups with the same key have the same automaton. No pattern has a NUL. */
export function keyOf({ patterns }: Group): string {
  return patterns.map(({ pattern }) => pattern).join('\0')
}

/** @param prefixLength how long the literal beginning of all of them is */
export function compileGroup({ patterns }: Group, prefixLength: number, caseSensitive: boolean): Automaton {
  return patterns.length <= FEW ? oneByOne(patterns, prefixLength, caseSensitive) : together(patterns, caseSensitive)
}

function together(placed: readonly PlacedPattern[], caseSensitive: boolean): Automaton {
  const patterns = placed.map(({ pattern }) => pattern)
  const forShortPaths = createAutomaton(patterns, caseSensitive)
  let forLongPaths: RE2Set | undefined
  return {
    match(path) {
      if (path.length <= SHORT_PATH_LENGTH) return forShortPaths.match(path)
      forLongPaths ??= createAutomaton(patterns, caseSensitive, 0)
      return forLongPaths.match(path)
    },
  }
}

function oneByOne(patterns: readonly PlacedPattern[], prefixLength: number, caseSensitive: boolean): Automaton {
  const searches = patterns.map(({ pattern, rest }) => ({
    compiled: compiledPattern(rest ?? pattern, caseSensitive),
    start: rest === null ? 0 : prefixLength,
  }))
  return {
    match(path) {
      const indices: number[] = []
      for (const [index, { compiled, start }] of searches.entries()) {
        if (compiled.test(path.slice(start))) indices.push(index)
      }
      return indices
    },
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 2_166_136_261
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 16_777_619) >>> 0
  return hash
}
