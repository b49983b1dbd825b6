import type { PlacedPattern } from './pattern-group.js'
import { requiredTexts } from './required-text.js'

/** The length of a part, in characters. */
export const PART_LENGTH = 4

/** The part by which each of many patterns is found: a few characters that a path must contain for it to match. */
export class PatternParts {
  /** The chosen parts by pattern; null for a pattern that has none. */
  readonly #chosen = new Map<string, string | null>()

  partFor(pattern: string): string | null {
    return this.#chosen.get(pattern) ?? null
  }

  /**
   * Chooses parts for patterns that are searched together, so that few share a part. One step per pattern.
   *
   * @param previous its choices are kept: they are costly, and compiled groups stay the same
   */
  *choose(
    patterns: readonly PlacedPattern[],
    caseSensitive: boolean,
    previous: PatternParts | undefined,
  ): Generator<void> {
    const uses = new Map<string, number>()
    const choose = (pattern: string, part: string | null) => {
      this.#chosen.set(pattern, part)
      if (part !== null) uses.set(part, (uses.get(part) ?? 0) + 1)
    }
    if (previous !== undefined) {
      for (const { pattern } of patterns) {
        const known = previous.#chosen.get(pattern)
        if (known !== undefined) choose(pattern, known)
        yield
      }
    }
    for (const { pattern } of patterns) {
      if (this.#chosen.has(pattern)) continue
      choose(pattern, leastUsed(requiredTexts(pattern, caseSensitive).flatMap(toParts), uses))
      yield
    }
  }
}

function toParts(text: string): string[] {
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
