import type { IndexedPattern } from './pattern-group.js'
import { requiredTexts } from './required-text.js'

/** The length of a fragment, in characters. */
export const FRAGMENT_LENGTH = 4

/** The fragment by which each of many patterns is found: a few characters that a path must contain for it to match. */
export class PatternFragments {
  /** The chosen fragments by pattern; null for a pattern that has none. */
  readonly #chosen = new Map<string, string | null>()

  fragmentFor(pattern: string): string | null {
    return this.#chosen.get(pattern) ?? null
  }

  /**
   * Chooses fragments for patterns that are searched together, so that few share a fragment. One step per pattern.
   *
   * @param previous its choices are kept: they are costly, and compiled groups stay the same
   */
  *choose(
    patterns: readonly IndexedPattern[],
    caseSensitive: boolean,
    previous: PatternFragments | undefined,
  ): Generator<void> {
    const uses = new Map<string, number>()
    const choose = (pattern: string, fragment: string | null) => {
      this.#chosen.set(pattern, fragment)
      if (fragment !== null) uses.set(fragment, (uses.get(fragment) ?? 0) + 1)
    }
    if (previous !== undefined) {
      for (const { pattern } of patterns) {
        const fragment = previous.#chosen.get(pattern)
        if (fragment !== undefined) choose(pattern, fragment)
        yield
      }
    }
    for (const { pattern } of patterns) {
      if (this.#chosen.has(pattern)) continue
      choose(pattern, leastUsed(requiredTexts(pattern, caseSensitive).flatMap(toFragments), uses))
      yield
    }
  }
}

function toFragments(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - FRAGMENT_LENGTH + 1) }, (_, start) =>
    text.slice(start, start + FRAGMENT_LENGTH),
  )
}

function leastUsed(fragments: readonly string[], uses: ReadonlyMap<string, number>): string | null {
  let best: string | null = null
  let fewest = Number.POSITIVE_INFINITY
  for (const fragment of fragments) {
    const count = uses.get(fragment) ?? 0
    if (count >= fewest) continue
    best = fragment
    fewest = count
  }
  return best
}
