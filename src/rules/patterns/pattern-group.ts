/** Patterns that are searched for together. */
import type { RE2Set } from 're2js'
import { compiledPattern, createAutomaton } from './pattern.js'
import { SHORT_PATH_LENGTH } from './work.js'

/** The most patterns per automaton: its cost on a new path grows with their number. */
const GROUP_SIZE = 64
/** Patterns with more instructions have a group each: an automaton of several would have too many states. */
const MAX_GROUPED_SIZE = 64
/** The number of patterns that are compiled one by one, on demand; more are compiled beforehand: no request waits. */
export const FEW = 4

/** A pattern and its index in the set. */
export interface IndexedPattern {
  readonly index: number
  readonly pattern: string
  /** The number of instructions that it compiles to. */
  readonly size: number
  /** The part after the literal beginning, where it can be matched alone. */
  readonly rest: string | null
}

/** Returns the indices of the patterns of a group that match. */
export interface Automaton {
  match(path: string): readonly number[]
}

export interface PatternGroup {
  readonly patterns: IndexedPattern[]
  /** The number of instructions of all patterns. */
  size: number
  /** The automaton; undefined until it is compiled. */
  automaton: Automaton | undefined
}

/**
 * Spreads patterns over groups by their text: a pattern that is added or removed changes its own group alone, so that
 * the others need not be compiled again. In steps of well under a millisecond.
 */
export function* groupPatterns(patterns: readonly IndexedPattern[]): Generator<void, PatternGroup[]> {
  let count = 1
  while (patterns.length / count > GROUP_SIZE) count *= 2
  const groups = Array.from({ length: count }, emptyGroup)
  for (const indexed of patterns) {
    const index = indexed.size > MAX_GROUPED_SIZE ? groups.push(emptyGroup()) - 1 : toHash(indexed.pattern) % count
    const group = groups[index]
    group?.patterns.push(indexed)
    if (group !== undefined) group.size += indexed.size
    yield
  }
  return groups.filter((group) => group.patterns.length > 0)
}

function emptyGroup(): PatternGroup {
  return { patterns: [], size: 0, automaton: undefined }
}

/** Returns the key of a group. Groups with the same key have the same automaton. No pattern contains NUL. */
export function toGroupKey({ patterns }: PatternGroup): string {
  return patterns.map(({ pattern }) => pattern).join('\0')
}

/** @param prefixLength the length of their common literal beginning */
export function compileGroup({ patterns }: PatternGroup, prefixLength: number, caseSensitive: boolean): Automaton {
  return patterns.length <= FEW
    ? oneByOne(patterns, prefixLength, caseSensitive)
    : createGroupAutomaton(patterns, caseSensitive)
}

function createGroupAutomaton(indexed: readonly IndexedPattern[], caseSensitive: boolean): Automaton {
  const patterns = indexed.map(({ pattern }) => pattern)
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

function oneByOne(patterns: readonly IndexedPattern[], prefixLength: number, caseSensitive: boolean): Automaton {
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

/** Returns the FNV-1a hash of a text. */
function toHash(text: string): number {
  let hash = 2_166_136_261
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 16_777_619) >>> 0
  return hash
}
