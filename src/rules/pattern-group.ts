/** Patterns that are searched for together. */
import { RE2JS, RE2Set } from 're2js'
import { compiledPattern } from './pattern.js'

/** How many patterns one automaton has at most: its cost on a path that never came before grows with their number. */
const GROUP_SIZE = 64
/** So few are compiled one by one, when a path asks for them; more beforehand, so that no request waits for it. */
export const FEW = 4

/** A pattern with its place in the set. */
export interface PlacedPattern {
  readonly place: number
  readonly pattern: string
  /** What comes after the literal beginning, where that can be matched without it. */
  readonly rest: string | null
}

/** Answers the indices of the patterns of a group that match. */
export interface Automaton {
  match(path: string): readonly number[]
}

export interface Group {
  readonly patterns: PlacedPattern[]
  /** Undefined as long as nobody has compiled it. */
  automaton: Automaton | undefined
}

/**
 * Spreads patterns over groups by their text: one more or less changes its own group, and leaves the others as they
 * were, which need not be compiled again. In steps of well under a millisecond.
 */
export function* grouped(patterns: readonly PlacedPattern[]): Generator<void, Group[]> {
  let count = 1
  while (patterns.length / count > GROUP_SIZE) count *= 2
  const groups = Array.from({ length: count }, (): Group => ({ patterns: [], automaton: undefined }))
  for (const placed of patterns) {
    groups[hashOf(placed.pattern) % count]?.patterns.push(placed)
    yield
  }
  return groups.filter((group) => group.patterns.length > 0)
}

/** Groups with the same key have the same automaton. No pattern has a NUL. */
export function keyOf({ patterns }: Group): string {
  return patterns.map(({ pattern }) => pattern).join('\0')
}

/** @param prefixLength how long the literal beginning of all of them is */
export function compileGroup({ patterns }: Group, prefixLength: number, caseSensitive: boolean): Automaton {
  if (patterns.length <= FEW) return oneByOne(patterns, prefixLength, caseSensitive)
  const automaton = new RE2Set(RE2Set.UNANCHORED, flagsOf(caseSensitive))
  for (const { pattern } of patterns) automaton.add(pattern)
  automaton.compile()
  return automaton
}

function oneByOne(patterns: readonly PlacedPattern[], prefixLength: number, caseSensitive: boolean): Automaton {
  const searches = patterns.map(({ pattern, rest }) => ({
    compiled: compiledAlone(rest ?? pattern, caseSensitive),
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

function compiledAlone(pattern: string, caseSensitive: boolean): RE2JS {
  return caseSensitive ? compiledPattern(pattern) : RE2JS.compile(pattern, flagsOf(caseSensitive))
}

function flagsOf(caseSensitive: boolean): number {
  return caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 2_166_136_261
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 16_777_619) >>> 0
  return hash
}
